"""The methods of `Hub`, by what they make."""
