"""Places in containers of podman. The image is made here from Debian's packages; nothing is pulled."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

SUITE = "bookworm"
PACKAGES = ("ca-certificates", "chromium", "curl", "fonts-dejavu-core", "gcc", "git", "iproute2", "libc6-dev", "make", "nodejs", "npm", "procps", "python3", "python3-venv")
# Podman keeps nothing of its own beside the place, and needs no service manager. runc needs cgroups, and Debian's podman finds it without more.
OPTIONS = ("--cgroup-manager=cgroupfs", "--events-backend=none", "--runtime=runc", "--storage-driver=vfs")


def image(user, uid):
    """Returns the root filesystem of the image, which is made if it is missing."""
    at = Path(os.environ["BYLEAVE_PLACES_CACHE"]) / f"image-{SUITE}"
    if not (at / "made").exists():
        if shutil.which("mmdebstrap") is None:
            sys.exit("places: there is no mmdebstrap; as root: apt-get install mmdebstrap")
        shutil.rmtree(at, ignore_errors=True)
        at.mkdir(parents=True)
        # In a mount namespace of its own: what it mounts is gone with it, however it ends.
        made = subprocess.run(["unshare", "--mount", "--propagation", "private", "mmdebstrap", "--mode=root", "--variant=apt", f"--include={','.join(PACKAGES)}",
                               f"--customize-hook=chroot \"$1\" useradd -m -u {uid} -s /bin/bash {user}", SUITE, str(at / "root")],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if made.returncode:
            sys.exit(f"places: mmdebstrap ended with {made.returncode}: {made.stdout[-2000:]}")
        (at / "made").touch()
    return at / "root"


def start(place, uid, directory, opt, root, inside, memory, processes):
    """Returns the command that runs a place in a container.

    The root filesystem is an overlay over the image, as in every engine. There is no network but the loopback.
    """
    for name in ("store", "run", "tmp"):
        (directory / name).mkdir()
    podman = ["podman", *OPTIONS, "--root", str(directory / "store"), "--runroot", str(directory / "run"), "--tmpdir", str(directory / "tmp")]
    run = ["run", "--rm", f"--memory={memory}", f"--pids-limit={processes}", "--network=none", "--pull=never", "--volume", f"{opt}:/opt:ro", "--user", f"{uid}:{uid}", "--workdir", "/",
           *place.container, "--rootfs", f"{root}:O", *inside]
    # Ends the container with the place.
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private", *podman, *run]
