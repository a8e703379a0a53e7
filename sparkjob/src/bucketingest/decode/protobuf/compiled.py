"""Compiles the .proto texts that a registry has, with protoc itself: it comes with grpcio-tools, and knows the files of
google/protobuf. Only the driver does.
"""

from __future__ import annotations

import base64
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2

from bucketingest.registry.errors import RegistryError

_MAIN: Final = "bucketingest_schema.proto"
_SECONDS_MAX: Final = 60
_LENGTH_MAX: Final = 300
_INCLUDED: Final = "import sys, grpc_tools, os; from grpc_tools import protoc; sys.exit(protoc.main(sys.argv + ['-I' + \
os.path.join(os.path.dirname(grpc_tools.__file__), '_proto')]))"


_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]{0,99}(/[A-Za-z0-9_+-][A-Za-z0-9_.+-]{0,99}){0,20}")


class Uncompilable(Exception):
    """The text is no schema of Protobuf, or needs a file that is not there. It says why in protoc's words."""


class CompilerFailed(RegistryError):
    """protoc did not say what the text is: no verdict about messages follows."""


def compiled(text: str, imports: Mapping[str, str]) -> str:
    """The descriptor set in Base64, the schema's own file last. `imports`: texts by the names under which they are
    imported. Raises Uncompilable, CompilerFailed.
    """
    if find_spec("grpc_tools") is None:
        raise CompilerFailed("grpcio-tools compiles the registry's schemas and is missing: install bucketingest[spark]")
    try:
        return _compiled(text, imports)
    except (OSError, subprocess.SubprocessError) as error:
        raise CompilerFailed(f"a schema of the registry cannot be compiled: {error}") from error
    except UnicodeEncodeError as error:
        raise Uncompilable("it is no text") from error


def _compiled(text: str, imports: Mapping[str, str]) -> str:
    with tempfile.TemporaryDirectory(prefix="bucketingest-proto-") as folder:
        root = Path(folder)
        for name, content in imports.items():
            _place(root, name).write_text(content, encoding="utf-8")
        (root / _MAIN).write_text(text, encoding="utf-8")
        out = root / "out.bin"
        options = [f"-I{root}", "--include_imports", f"--descriptor_set_out={out}", _MAIN]
        ended = subprocess.run(  # noqa: S603 - this interpreter
            [sys.executable, "-c", _INCLUDED, *options], capture_output=True, timeout=_SECONDS_MAX, check=False
        )
        if ended.returncode or not out.exists():
            problem = _problem(ended.stderr.decode(errors="replace").replace(f"{root}/", ""))
            if problem is None or ended.returncode < 0:
                raise CompilerFailed(f"protoc ends with {ended.returncode} and does not say what is wrong")
            raise Uncompilable(problem)
        return base64.b64encode(out.read_bytes()).decode()


def _problem(said: str) -> str | None:
    """The first line that is of the schema, not of protoc's own log."""
    lines = [line for line in said.splitlines() if ".proto:" in line]
    return lines[0].replace(f"{_MAIN}:", "line ")[:_LENGTH_MAX] if lines else None


def message_names(descriptors: str) -> dict[str, str]:
    """Full names of the messages of a set's last file by their indexes, such as "0,1" for the second one inside the
    first.
    """
    file = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(descriptors)).file[-1]
    found: dict[str, str] = {}

    def add(messages: Any, path: str, around: str) -> None:
        for number, each in enumerate(messages):
            name = f"{around}.{each.name}" if around else each.name
            found[f"{path}{number}"] = name
            add(each.nested_type, f"{path}{number},", name)

    add(file.message_type, "", file.package)
    return found


def _place(root: Path, name: str) -> Path:
    if _FILE_NAME.fullmatch(name) is None or not name.endswith(".proto") or name == _MAIN:
        raise Uncompilable(f"it imports {name[:_LENGTH_MAX]!r}, which is no name of a file")
    place = root / name
    place.parent.mkdir(parents=True, exist_ok=True)
    return place
