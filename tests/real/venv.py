"""Python engines: an environment of pinned packages, made once."""

import subprocess
import sys

from engine import NotHere


def make_venv(folder, pins, python="python3"):
    """The interpreter of folder/venv, which has exactly the packages of the file `pins`."""
    interpreter, mark = folder / "venv/bin/python", folder / "venv/pins"
    if mark.exists() and mark.read_bytes() == pins.read_bytes():
        return interpreter
    print(f"installing {pins.name} into {folder / 'venv'}", file=sys.stderr, flush=True)
    with open(folder / "install.log", "w") as log:
        for command in ([python, "-m", "venv", "--clear", folder / "venv"],
                        [interpreter, "-m", "pip", "install", "--no-deps", "--quiet", "-r", pins]):
            if subprocess.run(command, stdout=log, stderr=log).returncode != 0:
                why = (folder / "install.log").read_text().strip().splitlines()[-1:]
                raise NotHere(f"{pins.stem} can't be installed ({folder / 'install.log'}): {''.join(why)}")
    mark.write_bytes(pins.read_bytes())
    return interpreter
