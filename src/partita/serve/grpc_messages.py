"""Messages of the Open Inference Protocol's gRPC service, made without a compiler.

Their numbers and types are the protocol's: https://github.com/open-inference/open-inference-protocol.
What is a map there is a list of entries here, which are the same bytes.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

#: The protocol's package, and the service in it.
PACKAGE = "inference"
SERVICE = f"{PACKAGE}.GRPCInferenceService"

#: Fields of each message, in the order of their numbers, which are counted from 1: ``name type``,
#: with ``*`` where it is repeated. A type that begins with a capital letter is a message.
_MESSAGES = {
    "ServerLiveRequest": "",
    "ServerLiveResponse": "live bool",
    "ServerReadyRequest": "",
    "ServerReadyResponse": "ready bool",
    "ModelReadyRequest": "name string, version string",
    "ModelReadyResponse": "ready bool",
    "ServerMetadataRequest": "",
    "ServerMetadataResponse": "name string, version string, extensions string*",
    "ModelMetadataRequest": "name string, version string",
    "TensorMetadata": "name string, datatype string, shape int64*",
    "ModelMetadataResponse": (
        "name string, versions string*, platform string, inputs TensorMetadata*,"
        " outputs TensorMetadata*"
    ),
    "InferParameter": (
        "bool_param bool, int64_param int64, string_param string, double_param double,"
        " uint64_param uint64"
    ),
    "Parameter": "key string, value InferParameter",
    "InferTensorContents": (
        "bool_contents bool*, int_contents int32*, int64_contents int64*, uint_contents uint32*,"
        " uint64_contents uint64*, fp32_contents float*, fp64_contents double*,"
        " bytes_contents bytes*"
    ),
    "InferInputTensor": (
        "name string, datatype string, shape int64*, parameters Parameter*,"
        " contents InferTensorContents"
    ),
    "InferRequestedOutputTensor": "name string, parameters Parameter*",
    "ModelInferRequest": (
        "model_name string, model_version string, id string, parameters Parameter*,"
        " inputs InferInputTensor*, outputs InferRequestedOutputTensor*, raw_input_contents bytes*"
    ),
    "InferOutputTensor": "name string, datatype string, shape int64*",
    "ModelInferResponse": (
        "model_name string, model_version string, id string, parameters Parameter*,"
        " outputs InferOutputTensor*, raw_output_contents bytes*"
    ),
}
#: A message of which one field at most is there.
_CHOICE = "InferParameter"


def _describe(name: str, fields: str) -> DescriptorProto:
    """A message as protocol buffers describe it."""
    message = DescriptorProto(name=name)
    if name == _CHOICE:
        message.oneof_decl.add(name="parameter_choice")
    for number, text in enumerate(filter(None, fields.split(", ")), 1):
        field_name, kind = text.rstrip("*").split()
        field = message.field.add(name=field_name, number=number)
        field.label = field.LABEL_REPEATED if text.endswith("*") else field.LABEL_OPTIONAL
        if kind[0].isupper():
            field.type, field.type_name = field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
        else:
            field.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
        if name == _CHOICE:
            field.oneof_index = 0
    return message


def _make_classes() -> dict[str, Any]:
    """The class of each message, in a pool of its own: others may know the same names."""
    file = FileDescriptorProto(name="partita/inference.proto", package=PACKAGE, syntax="proto3")
    file.message_type.extend(_describe(name, fields) for name, fields in _MESSAGES.items())
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    found = (pool.FindMessageTypeByName(f"{PACKAGE}.{name}") for name in _MESSAGES)
    return {descriptor.name: GetMessageClass(descriptor) for descriptor in found}


#: Classes of messages by name; protocol buffers make them when the program runs.
MESSAGES: dict[str, Any] = _make_classes()
