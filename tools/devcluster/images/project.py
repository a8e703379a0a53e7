"""Builds the project's images and brings them to a cluster. A tag comes from the content, so that new is never old."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devcluster.commands import run, say, succeeds
from devcluster.errors import ClusterError
from devcluster.images import base as base_images
from devcluster.images.platforms import native, require_programs_of
from devcluster.instance import cluster_folder
from devcluster.node.machine import package_settings
from devservers.locations import PROJECT_ROOT, require

TARGETS: Final = ("job", "operator")
_CA_BUNDLE: Final = Path("/etc/ssl/certs/ca-certificates.crt")
_DIGEST_LENGTH: Final = 12


@dataclass(frozen=True, slots=True)
class Image:
    """An image that was built on this machine.

    Attributes:
        target: Of the Dockerfile.
        tag: From its content.
        digest: Of its configuration, 64 hexadecimal digits; "" if it is not known.
    """

    target: str
    tag: str
    digest: str = ""

    @property
    def repository(self) -> str:
        """Its name without registry and tag."""
        return f"bucketingest-{self.target}"

    @property
    def local(self) -> str:
        """Its name on this machine."""
        return f"localhost/{self.repository}:{self.tag}"


class Builder:
    """What builds images, for this machine's architecture or another: buildah, which needs no daemon, or docker."""

    def __init__(self, program: str, architecture: str = "") -> None:
        self.program = program
        self.architecture = architecture or native()
        self._command = [program]
        if program == "buildah":
            storage = cluster_folder() / "buildah"
            self._command += ["--root", str(storage / "root"), "--runroot", str(storage / "run")]
            self._command += ["--storage-driver", "overlay"]

    def build(self, target: str, folder: Path = PROJECT_ROOT) -> Image:
        """Build one target of the Dockerfile. `folder`: the project's, or that of another version.

        Raises:
            ClusterError: the build failed; the message has the end of its output. Or the architecture's programs
                do not run here.
            MissingDependencyError: the connectors' jars are not there.
        """
        say(f"building the image of the {target} for {self.architecture} (the first time takes minutes)")
        with tempfile.NamedTemporaryFile(prefix="devcluster-image-") as identity_file, self._arguments() as arguments:
            context = ["--build-context", f"connectors={require('connectors')}"]
            options = ["--target", target, *self.platform, *context, "--iidfile", identity_file.name, *arguments]
            environment = self._environment()
            run(
                [*self._command, "build", *options, "--file", "Dockerfile", "."],
                folder=folder,
                environment=environment,
            )
            identity = Path(identity_file.name).read_text().strip()
        digest = identity.removeprefix("sha256:")
        image = Image(target, digest[:_DIGEST_LENGTH], digest)
        run([*self._command, "tag", identity, image.local], environment=self._environment())
        return image

    def push(self, image: Image, registry: str, *, plain_http: bool = False) -> None:
        """Bring an image to a registry; only what it lacks travels. Raises ClusterError."""
        name = f"{registry}/{image.repository}:{image.tag}"
        say(f"pushing {name}")
        if self.program == "buildah":
            trust = ["--tls-verify=false"] if plain_http else []
            run([*self._command, "push", "--quiet", *trust, image.local, f"docker://{name}"])
            return
        run([*self._command, "tag", image.local, name])
        run([*self._command, "push", "--quiet", name])

    def run(self, image: Image, *words: str) -> str:
        """What a program prints in a container of an image, as the image's user. Raises ClusterError: it failed."""
        if self.program != "buildah":
            return run(
                [*self._command, "run", "--rm", *self.platform, "--entrypoint", words[0], image.local, *words[1:]]
            )
        container = run([*self._command, "from", *self.platform, image.local]).strip()
        try:
            # Its own host name has no address with buildah, and a JVM asks for it.
            named = ["run", "--hostname", "localhost", container, "--", *words]
            return run([*self._command, *named], environment=self._environment())
        finally:
            run([*self._command, "rm", container])

    def save(self, image: Image, file: Path, tag: str) -> None:
        """Write an image into a file that `docker load` takes, under its name and this tag. Raises ClusterError."""
        name = f"{image.repository}:{tag}"
        say(f"writing {file}")
        file.unlink(missing_ok=True)
        if self.program == "buildah":
            run([*self._command, "push", "--quiet", image.local, f"docker-archive:{file}:{name}"])
            return
        run([*self._command, "tag", image.local, name])
        run([*self._command, "save", "--output", str(file), name])

    @property
    def platform(self) -> Sequence[str]:
        """Options that name the architecture, unless it is this machine's."""
        return [] if self.architecture == native() else ["--platform", f"linux/{self.architecture}"]

    def _environment(self) -> dict[str, str]:
        if self.program != "buildah":
            return {**os.environ, "DOCKER_BUILDKIT": "1"}
        # No runtime and no cgroup of its own: a RUN step is a chroot.
        return {**os.environ, "BUILDAH_ISOLATION": "chroot"}

    @contextmanager
    def _arguments(self) -> Iterator[Sequence[str]]:
        """Options that come from this machine: the base image, its certificates, where pip finds packages."""
        base = os.environ.get("BASE_IMAGE")
        if self.program != "buildah":
            yield ["--build-arg", f"BASE_IMAGE={base}"] if base else []
            return
        require_programs_of(self.architecture)
        if not base:
            base_images.make_debian(self.architecture)
            base = base_images.debian(self.architecture)
            if not succeeds([*self._command, "inspect", "--type", "image", base]):
                run([*self._command, "pull", "--quiet", f"docker-archive:{base_images.archive(base)}"])
        with tempfile.TemporaryDirectory(prefix="devcluster-build-") as folder:
            settings = Path(folder) / "pip.conf"
            settings.write_text(_pip_settings())
            # They are seen by RUN steps only, and are no part of the image.
            packages = Path(folder) / "apt.conf"
            packages.write_text("".join(f"{line}\n" for line in package_settings()))
            mounts = [f"{settings}:/etc/pip.conf:ro", f"{packages}:/etc/apt/apt.conf.d/90build:ro"]
            if _CA_BUNDLE.exists():
                mounts.append(f"{_CA_BUNDLE}:/run/build-certificates.crt:ro")
            volumes = [word for mount in mounts for word in ("--volume", mount)]
            layers = ["--layers", "--format", "docker", "--network", "host"]
            yield [*layers, *volumes, "--build-arg", f"BASE_IMAGE={base}"]


def builder(architecture: str = "") -> Builder:
    """What this machine builds images with, for its own architecture unless another is given.

    Raises:
        ClusterError: nothing.
    """
    if shutil.which("buildah") is not None:
        return Builder("buildah", architecture)
    if succeeds(["docker", "info"]):
        return Builder("docker", architecture)
    raise ClusterError("neither buildah nor docker is there to build images")


def _pip_settings() -> str:
    """The settings that pip has on this machine, with the certificates where a RUN step sees them."""
    lines = ["[global]", "disable-pip-version-check = true", "root-user-action = ignore"]
    if _CA_BUNDLE.exists():
        lines.append("cert = /run/build-certificates.crt")
    if (index := os.environ.get("PIP_INDEX_URL") or _configured_index()) is not None:
        lines.append(f"index-url = {index}")
    return "\n".join(lines) + "\n"


def _configured_index() -> str | None:
    try:
        asked = ["pip", "config", "get", "global.index-url"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
