"""Programs built from Go modules whose versions and contents are locked; each build is kept by what it was made of."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devcluster.commands import run, say
from devcluster.errors import ClusterError
from devcluster.instance import cluster_folder

SOURCES: Final = Path(__file__).parent / "go"
_KUBERNETES: Final = "1.36.3"
_VERSION_PACKAGES: Final = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


@dataclass(frozen=True, slots=True)
class Module:
    """A Go module below `go/`, and what is built from it.

    Attributes:
        programs: Name of a program to the package it is built from.
        aliases: Further names, by which a program is another one.
    """

    name: str
    programs: Mapping[str, str]
    aliases: Mapping[str, str]
    linker_flags: str = "-s -w"

    @property
    def digest(self) -> str:
        """Of all that the build depends on."""
        sources = sorted(path for path in (SOURCES / self.name).rglob("*") if path.is_file())
        content = hashlib.sha256(f"{self.programs}{self.aliases}{self.linker_flags}".encode())
        for path in sources:
            content.update(path.read_bytes())
        return content.hexdigest()[:12]

    @property
    def folder(self) -> Path:
        """Where its programs lie."""
        return cluster_folder() / "bin" / f"{self.name}-{self.digest}"


def _kubernetes_flags() -> str:
    major, minor, _patch = _KUBERNETES.split(".")
    stated = {
        "gitVersion": f"v{_KUBERNETES}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
    }
    words = [f"-X {package}.{name}={value}" for package in _VERSION_PACKAGES for name, value in stated.items()]
    return " ".join(["-s -w", *words])


_PARTS = ("apiserver", "controller-manager", "scheduler", "proxy")
KUBE: Final = Module(
    "kube",
    {"kube": "./kube", "coredns": "./coredns", "etcd": "go.etcd.io/etcd/server/v3"},
    {**{f"kube-{part}": "kube" for part in _PARTS}, "kubelet": "kube", "kubectl": "kube"},
    _kubernetes_flags(),
)
REGISTRY: Final = Module("registry", {"registry": "github.com/distribution/distribution/v3/cmd/registry"}, {})
HELM: Final = Module("helm", {"helm": "helm.sh/helm/v3/cmd/helm"}, {})
KEDA: Final = Module(
    "keda",
    {f"keda-{part}": f"github.com/kedacore/keda/v2/cmd/{part}" for part in ("operator", "adapter")},
    {},
)
MODULES: Final = (KUBE, REGISTRY, HELM, KEDA)


def program(name: str) -> Path:
    """A built program.

    Raises:
        ClusterError: it is not built yet.
    """
    for module in MODULES:
        if name in module.programs or name in module.aliases:
            path = module.folder / name
            if path.exists():
                return path
            raise ClusterError(f"{name} is not built yet: `python -m devcluster setup` does it")
    raise ClusterError(f"nothing here builds {name}")


def source_of(module: Module, package: str) -> Path:
    """The folder of another module that this one is built from. Raises ClusterError."""
    environment = {**os.environ, "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
    command = ["go", "list", "-m", "-f", "{{.Dir}}", package]
    return Path(run(command, folder=SOURCES / module.name, environment=environment).strip())


def find_tool(name: str) -> str:
    """`kubectl` or `helm`: the one built here, else the machine's own.

    Raises:
        ClusterError: there is none.
    """
    try:
        return str(program(name))
    except ClusterError:
        if (own := shutil.which(name)) is not None:
            return own
        raise


def build(modules: Sequence[Module]) -> None:
    """Build what is not there yet.

    Raises:
        ClusterError: Go is missing, or a build failed.
    """
    for module in modules:
        if not (module.folder / ".ready").exists():
            _build(module)


def _build(module: Module) -> None:
    if shutil.which("go") is None:
        raise ClusterError("Go is missing: see go.dev/dl")
    say(f"building {', '.join(module.programs)} (once)")
    unfinished = module.folder.with_name(f".{module.folder.name}.{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    options = ["-trimpath", "-buildvcs=false", "-ldflags", module.linker_flags]
    for name, package in module.programs.items():
        command = ["go", "build", *options, "-o", str(unfinished / name), package]
        run(command, folder=SOURCES / module.name, environment=environment)
    for alias, name in module.aliases.items():
        (unfinished / alias).symlink_to(name)
    (unfinished / ".ready").touch()
    shutil.rmtree(module.folder, ignore_errors=True)
    unfinished.rename(module.folder)
