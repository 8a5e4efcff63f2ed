/**
 * The manifests of deploy/containers parse, and agree with docs/containers.md. The test runs neither
 * Docker nor Kubernetes.
 */
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { checkHubConfig } from "../../src/hub/limits/hub-config.js";

const FOLDER = "deploy/containers";
const skip = existsSync(FOLDER) ? false : "the manifests are not here";

interface Container {
  readonly name?: string;
  readonly env?: readonly { readonly name: string; readonly value: string }[];
  readonly restartPolicy?: string;
  readonly securityContext?: Record<string, unknown>;
  readonly volumeMounts: readonly {
    readonly name: string;
    readonly mountPath: string;
    readonly readOnly?: boolean;
  }[];
}

interface PodSpec extends Record<string, unknown> {
  readonly containers: readonly Container[];
  readonly initContainers?: readonly Container[];
  readonly volumes: readonly { readonly name: string }[];
}

interface Manifest extends Record<string, unknown> {
  readonly kind: string;
  readonly data?: Record<string, string>;
  readonly spec?: PodSpec & { readonly template?: { readonly spec: PodSpec } };
}

async function parsed(file: string): Promise<Manifest[]> {
  // Imported here because the GPU bundle has the tests and not this package.
  const { parseAllDocuments } = await import("yaml");
  return parseAllDocuments(readFileSync(`${FOLDER}/${file}`, "utf8"), { strict: true }).map(
    (document) => {
      if ("errors" in document)
        assert.deepEqual([...document.errors, ...document.warnings], [], file);
      return (document as { toJS(): unknown }).toJS() as Manifest;
    },
  );
}

function podsOf(manifests: readonly Manifest[]): PodSpec[] {
  return manifests.flatMap(({ spec }) => (spec === undefined ? [] : [spec.template?.spec ?? spec]));
}

function socketOf({ env = [] }: Container): string | undefined {
  return env.find(({ name }) => name === "CUDA_IPC_SOCKET")?.value;
}

function checkConfig(text: string): string | undefined {
  const names = { users: () => undefined, groups: () => undefined };
  return checkHubConfig("the manifest", JSON.parse(text), names).socket;
}

describe("the manifests for containers", { skip }, () => {
  it("docs/containers.md links to each of them", () => {
    const page = readFileSync("docs/containers.md", "utf8");
    for (const file of readdirSync(FOLDER)) assert.ok(page.includes(`../${FOLDER}/${file}`), file);
  });

  for (const file of ["hub-daemonset.yaml", "hub-sidecar.yaml"]) {
    it(`${file}: containers share the folder of one socket and no namespace of the host`, async () => {
      const manifests = await parsed(file);
      const config = manifests.find(({ kind }) => kind === "ConfigMap")?.data?.["hub.json"];
      const sockets = new Set(config === undefined ? [] : [checkConfig(config)]);
      for (const pod of podsOf(manifests)) {
        for (const key of ["hostPID", "hostIPC", "hostNetwork", "shareProcessNamespace"])
          assert.equal(pod[key], undefined);
        const volumes = new Set(pod.volumes.map(({ name }) => name));
        for (const container of [...pod.containers, ...(pod.initContainers ?? [])]) {
          const socket = socketOf(container);
          if (socket !== undefined) sockets.add(socket);
          const mount = container.volumeMounts.find(({ name }) => name === "socket");
          assert.ok(
            [...sockets].every((path) => path?.startsWith(`${mount?.mountPath}/`)),
            container.name,
          );
          for (const { name } of container.volumeMounts) assert.ok(volumes.has(name), name);
          const { allowPrivilegeEscalation, capabilities } = container.securityContext ?? {};
          assert.deepEqual(
            [allowPrivilegeEscalation, capabilities],
            [false, { drop: ["ALL"] }],
            container.name,
          );
        }
      }
      assert.equal(sockets.size, 1, [...sockets].join(", "));
    });
  }

  it("compose.yaml: services share the volume of the hub's socket", async () => {
    const [compose] = (await parsed("compose.yaml")) as unknown as {
      services: Record<string, { volumes: string[]; environment?: Record<string, string> }>;
      configs: Record<string, { content: string }>;
    }[];
    assert.ok(compose !== undefined);
    const socket = checkConfig(compose.configs["hub-config"]?.content ?? "");
    const { hub, worker } = compose.services;
    assert.deepEqual(hub?.volumes, ["hub-socket:/run/cuda-ipc"]);
    assert.deepEqual(worker?.volumes, ["hub-socket:/run/cuda-ipc:ro"]);
    assert.deepEqual(
      [worker?.environment?.CUDA_IPC_SOCKET, socket],
      ["/run/cuda-ipc/hub.sock", "/run/cuda-ipc/hub.sock"],
    );
  });
});
