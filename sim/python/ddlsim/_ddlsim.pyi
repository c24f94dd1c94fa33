# What the package calls; not for others.
from typing import Any

version: str
source_data: str

def __getattr__(name: str) -> Any: ...
