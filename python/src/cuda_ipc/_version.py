"""The version of this package. It is that of the npm package."""

from typing import Final

VERSION: Final = "0.1.0"
