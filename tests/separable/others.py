"""Small residual networks as others write them."""

import torch


class _Bottleneck(torch.nn.Module):
    """As torchvision writes them: convolutions and normalisations by number, a downsampling."""

    def __init__(self, before: int, inner: int, stride: int, paths: int) -> None:
        super().__init__()
        conv, norm = torch.nn.Conv2d, torch.nn.BatchNorm2d
        self.body = torch.nn.Sequential(
            *(conv(before, inner, 1, bias=False), norm(inner), torch.nn.ReLU()),
            conv(inner, inner, 3, stride, 1, groups=paths, bias=False),
            *(norm(inner), torch.nn.ReLU(), conv(inner, 2 * inner, 1, bias=False), norm(2 * inner)),
        )
        self.downsample: torch.nn.Module = torch.nn.Identity()
        if stride > 1 or before != 2 * inner:
            self.downsample = torch.nn.Sequential(
                conv(before, 2 * inner, 1, stride, bias=False), norm(2 * inner)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.downsample(x))


def torch_network(paths: int) -> torch.nn.Module:
    """Two stages of two bottlenecks, (N, 3, H, W) to (N, 5).

    Args:
        paths: Groups of the 3x3 convolutions.
    """
    torch.manual_seed(0)
    stem = [torch.nn.Conv2d(3, 8, 7, 2, 3, bias=False), torch.nn.BatchNorm2d(8), torch.nn.ReLU()]
    blocks = [(8, 8, 1), (16, 8, 1), (16, 16, 2), (32, 16, 1)]
    return torch.nn.Sequential(
        *stem,
        torch.nn.MaxPool2d(3, 2, 1),
        *(_Bottleneck(*block, paths) for block in blocks),
        *(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 5)),
    )
