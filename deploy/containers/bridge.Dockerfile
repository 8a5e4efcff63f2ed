# The image of a bridge to other machines: UCX of Debian, which has TCP and RDMA, and the client of
# NATS. Build it with: docker build -f bridge.Dockerfile -t your-registry/cuda-ipc-bridge .
FROM node:22-slim
RUN apt-get update && apt-get install --yes --no-install-recommends libucx0 \
  && rm -rf /var/lib/apt/lists/*
RUN npm install --global cuda-ipc @nats-io/transport-node @nats-io/kv
# SIGTERM, Docker's default, takes the names back before the bridge ends. Copies stay.
ENTRYPOINT ["cuda-ipc", "bridge"]
