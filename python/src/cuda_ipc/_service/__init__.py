"""Services: workers that answer requests, and clients that send them. docs/protocol.md has the
links of a service, which are made of two channels each."""
