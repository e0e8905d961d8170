"""What hatchling does with machine code: where ``WHICHVARS_OBJECTS`` names a folder of it (objects.py), it goes into the wheel, which is
then one for this platform and any version of Python. Without it the wheel is pure Python, and kernels are compiled at their first use."""

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# what is called outside of the object files has been in the C library since long before this one, the oldest that Numba runs on
TAG = "py3-none-manylinux2014_x86_64"


class MachineCode(BuildHookInterface):  # type: ignore[misc]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        objects = os.environ.get("WHICHVARS_OBJECTS")
        if not objects or version == "editable":
            return
        if not any(Path(objects).glob("*/index.json")):
            raise ValueError(f"WHICHVARS_OBJECTS: there is no machine code in {objects}")
        build_data["force_include"][objects] = "whichvars/_kernels/objects"
        build_data["pure_python"] = False
        build_data["tag"] = TAG
