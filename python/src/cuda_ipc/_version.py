"""The version of this package. It is that of the npm package."""

VERSION = "0.1.0"
