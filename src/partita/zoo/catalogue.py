"""The models on offer, with the published counts that they must meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from partita.errors import ModelError
from partita.files import write_whole
from partita.zoo.alexnet import add_alexnet
from partita.zoo.builder import Builder
from partita.zoo.c3d import add_c3d
from partita.zoo.densenet import add_densenet201
from partita.zoo.efficientnet import add_efficientnet_b0
from partita.zoo.faster_rcnn import add_faster_rcnn
from partita.zoo.googlenet import add_googlenet
from partita.zoo.inception import add_inception_v3
from partita.zoo.lowlight import add_lowlight_resnet
from partita.zoo.mnasnet import add_mnasnet
from partita.zoo.mobilenet import add_mobilenet_v1, add_mobilenet_v2
from partita.zoo.openpose import add_openpose
from partita.zoo.resnet import add_resnet18, add_resnet50, add_resnet152, add_resnext50
from partita.zoo.squeezenet import add_squeezenet
from partita.zoo.ssd import add_ssd_resnet50, add_ssd_vgg16
from partita.zoo.vgg import add_vgg16, add_vgg19
from partita.zoo.voxelnet import add_voxelnet
from partita.zoo.weights import DrawnWeights
from partita.zoo.xception import add_xception
from partita.zoo.yolo import add_yolov2
from partita.zoo.yolov3 import add_yolov3, add_yolov3_spp, add_yolov3_tiny

INPUT = "input"
_IMAGE = (3, 224, 224)


@dataclass(frozen=True)
class ZooEntry:
    """One model.

    Attributes:
        name: What ``build_model`` takes.
        parameters: Learned numbers: weights, biases and slopes, and scale and shift of
            normalisations, not their running statistics.
        macs: Multiply-accumulates of convolutions and matrix products for one input of ``shape``.
        source: Where the architecture's counts are published, or what they were checked against.
        shape: Input without the batch: channels, height, width; with depth before height if 3-D.
        min_size: Smallest height and width.
        multiple: What height and width must be a multiple of.
    """

    name: str
    parameters: int
    macs: int
    source: str
    add: Callable[[Builder, str], str | tuple[str, ...]] = field(repr=False, compare=False)
    shape: tuple[int, ...] = _IMAGE
    min_size: int = 32
    multiple: int = 1


_TORCHVISION = "torchvision model documentation, 'num_params' and 'GFLOPS' of the weights table"
_INCEPTION = f"{_TORCHVISION}, less the auxiliary classifier's 3,326,696 parameters"
_YOLO = "yolov2.weights, 203,934,260 bytes, and 62.94 GFLOP at 608 x 608 (pjreddie.com/darknet)"
_YOLOV3 = "sizes of yolov3.weights, -tiny and -spp, and the table of pjreddie.com/darknet/yolo"
_FASTER_RCNN = (
    "torchvision's fasterrcnn_resnet50_fpn, less its box head's 14,362,055 parameters; its fixed"
    " normalisations' 53,120 scales and shifts are counted here"
)
_MOBILENET = "TensorFlow-Slim's table of MobileNet-v1; paper, table 4: 569 M multiply-adds"
_OPENPOSE = "BODY_25's prototxt; its caffemodel of 104,715,850 bytes has no room for another number"
_SSD = "'22894902 parameters' of NVIDIA's SSD300 as the yannqi/SSD-for-pytorch repository lists it"
_VOXELNET = "summed over section 3.1 and figure 4 of the paper, which gives no count"
_ALEXNET = "summed over the paper's figure 2 without its groups; with them 60,965,224"
_XCEPTION = "keras.io/api/applications: 22,910,480, less 54,528 running statistics"
_C3D = "summed over the paper's figure 3 with 487 classes; with 101 it is 78,409,573"
_LOWLIGHT = "ours; summed over its definition"

ZOO: dict[str, ZooEntry] = {
    entry.name: entry
    for entry in (
        ZooEntry("alexnet", 62_378_344, 1_135_256_096, _ALEXNET, add_alexnet, min_size=63),
        ZooEntry("vgg16", 138_357_544, 15_470_264_320, _TORCHVISION, add_vgg16),
        ZooEntry("vgg19", 143_667_240, 19_632_062_464, _TORCHVISION, add_vgg19),
        ZooEntry("resnet18", 11_689_512, 1_814_073_344, _TORCHVISION, add_resnet18),
        ZooEntry("resnet50", 25_557_032, 4_089_184_256, _TORCHVISION, add_resnet50),
        ZooEntry("resnet152", 60_192_808, 11_513_626_624, _TORCHVISION, add_resnet152),
        ZooEntry("resnext50_32x4d", 25_028_904, 4_230_479_872, _TORCHVISION, add_resnext50),
        ZooEntry("mobilenet_v1", 4_231_976, 568_740_352, _MOBILENET, add_mobilenet_v1),
        ZooEntry("mobilenet_v2", 3_504_872, 300_774_272, _TORCHVISION, add_mobilenet_v2),
        ZooEntry("mnasnet1_0", 4_383_312, 314_415_872, _TORCHVISION, add_mnasnet),
        ZooEntry("efficientnet_b0", 5_288_548, 385_814_752, _TORCHVISION, add_efficientnet_b0),
        ZooEntry("googlenet", 6_624_904, 1_498_376_192, _TORCHVISION, add_googlenet),
        ZooEntry(
            "inception_v3",
            23_834_568,
            5_713_216_096,
            _INCEPTION,
            add_inception_v3,
            (3, 299, 299),
            75,
        ),
        ZooEntry("xception", 22_855_952, 8_357_403_496, _XCEPTION, add_xception, (3, 299, 299), 71),
        ZooEntry("squeezenet", 1_248_424, 818_924_576, _TORCHVISION, add_squeezenet),
        ZooEntry("densenet201", 20_013_928, 4_291_365_888, _TORCHVISION, add_densenet201),
        ZooEntry(
            "yolov2", 50_962_889, 14_732_084_224, _YOLO, add_yolov2, (3, 416, 416), multiple=32
        ),
        ZooEntry(
            "yolov3", 61_949_149, 32_932_037_632, _YOLOV3, add_yolov3, (3, 416, 416), multiple=32
        ),
        ZooEntry(
            "yolov3_tiny",
            8_852_366,
            2_782_480_896,
            _YOLOV3,
            add_yolov3_tiny,
            (3, 416, 416),
            multiple=32,
        ),
        ZooEntry(
            "yolov3_spp",
            62_998_749,
            33_109_246_976,
            _YOLOV3,
            add_yolov3_spp,
            (3, 416, 416),
            multiple=32,
        ),
        ZooEntry(
            "ssd_vgg16", 35_641_826, 34_858_153_472, _TORCHVISION, add_ssd_vgg16, (3, 300, 300), 268
        ),
        ZooEntry(
            "ssd_resnet50", 22_894_902, 20_150_906_112, _SSD, add_ssd_resnet50, (3, 300, 300), 257
        ),
        ZooEntry(
            "faster_rcnn",
            27_446_351,
            120_020_169_216,
            _FASTER_RCNN,
            add_faster_rcnn,
            (3, 800, 800),
            multiple=32,
        ),
        ZooEntry("openpose", 26_166_084, 80_573_217_280, _OPENPOSE, add_openpose, (3, 368, 368)),
        ZooEntry(
            "voxelnet",
            6_655_376,
            283_528_396_800,
            _VOXELNET,
            add_voxelnet,
            (128, 10, 400, 352),
            multiple=8,
        ),
        ZooEntry("c3d", 79_991_015, 38_548_959_232, _C3D, add_c3d, (3, 16, 112, 112)),
        ZooEntry(
            "lowlight_resnet",
            1_235_724,
            20_157_825_024,
            _LOWLIGHT,
            add_lowlight_resnet,
            (3, 256, 256),
            multiple=2,
        ),
    )
}


def build_model(
    name: str, *, seed: int = 0, batch: int = 1, size: int | None = None, weights: bool = True
) -> onnx.ModelProto:
    """A model with weights drawn from a seed; equal arguments give equal bytes.

    Args:
        name: A key of ``ZOO``.
        seed: Seed of the weights, from 0.
        batch: Images per input.
        size: Height and width of the image in pixels, those of the entry's ``shape`` unless given.
            Another size changes the first dense layer of the VGGs, and with it their parameter
            count.
        weights: Whether to give the weights values. Without them a model of any size is built at
            once; it has shapes to count and cannot run.

    Returns:
        Opset 17; input ``input``, the entry's ``shape`` behind the batch. Classifiers have one
        output, the logits (batch, 1000); what the others return is in their files.

    Raises:
        ModelError: The name is not in the zoo, or a number is out of range.

    >>> build_model("mobilenet_v2", size=64).graph.input[0].name
    'input'
    """
    entry = find_model(name)
    shape = entry.shape if size is None else (*entry.shape[:-2], size, size)
    least = {"seed": (seed, 0), "batch": (batch, 1), "size": (shape[-1], entry.min_size)}
    faults = [
        f"{what} is {value}, at least {smallest} is allowed"
        for what, (value, smallest) in least.items()
        if value < smallest
    ]
    if shape[-1] % entry.multiple:
        faults.append(f"size is {size}, multiples of {entry.multiple} are allowed")
    if faults:
        raise ModelError(f"Model '{name}' cannot be built: {'; '.join(faults)}.", subject=name)
    builder = Builder(name, weights=DrawnWeights(seed, filled=weights))
    outputs = entry.add(builder, builder.add_input(INPUT, (batch, *shape)))
    return builder.finish(*([outputs] if isinstance(outputs, str) else outputs))


def find_model(name: str) -> ZooEntry:
    """The zoo's entry of a name.

    Raises:
        ModelError: There is none; the message lists those that exist.
    """
    if name not in ZOO:
        known = ", ".join(ZOO)
        raise ModelError(f"Model '{name}' is not in the zoo, which has: {known}.", subject=name)
    return ZOO[name]


def write_model(model: onnx.ModelProto, path: str | Path) -> None:
    """Write a model to ``path``: the whole file appears, or nothing.

    Raises:
        ModelError: The file cannot be written.
    """
    try:
        write_whole(Path(path), model.SerializeToString())
    except OSError as error:
        raise ModelError(
            f"Model file '{path}' cannot be written: {error.strerror}.", subject=str(path)
        ) from error
