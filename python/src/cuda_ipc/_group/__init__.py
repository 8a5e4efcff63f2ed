"""Groups of processes that meet at barriers. docs/protocol.md ("Groups") has their memory."""
