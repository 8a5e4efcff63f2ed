/**
 * The manifests of deploy/containers parse, fit the schemas of Kubernetes and Compose, and agree
 * with docs/containers.md. The test runs neither Docker nor Kubernetes.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { describe, it } from "node:test";
import { checkHubConfig } from "../../src/hub/limits/hub-config.js";
import { TestFolder } from "../support/test-folder.js";

const FOLDER = "deploy/containers";
const SECRET = "cuda-ipc-nats";
const skip = existsSync(FOLDER) ? false : "the manifests are not here";

interface Container {
  readonly name?: string;
  readonly args?: readonly string[];
  readonly env?: readonly {
    readonly name: string;
    readonly value?: string;
    readonly valueFrom?: Record<string, { readonly name?: string }>;
  }[];
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
  readonly volumes: readonly {
    readonly name: string;
    readonly hostPath?: { readonly path: string };
  }[];
}

interface Manifest extends Record<string, unknown> {
  readonly kind: string;
  readonly metadata?: { readonly name: string };
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
  return manifests
    .flatMap(({ spec }) => (spec === undefined ? [] : [spec.template?.spec ?? spec]))
    .filter(({ containers }) => containers !== undefined);
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

  for (const file of ["hub-daemonset.yaml", "hub-sidecar.yaml", "bridge-daemonset.yaml"]) {
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
            container.name === "nats" ||
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

  it("bridge-daemonset.yaml: the folder of the hub's manifest, and the login from a Secret", async () => {
    const [bridges, ...rest] = await parsed("bridge-daemonset.yaml");
    const hubs = (await parsed("hub-daemonset.yaml")).find(({ kind }) => kind === "DaemonSet");
    const pathOf = (manifest: Manifest | undefined) =>
      manifest?.spec?.template?.spec.volumes.find(({ name }) => name === "socket")?.hostPath?.path;
    assert.ok(pathOf(bridges) !== undefined);
    assert.equal(pathOf(bridges), pathOf(hubs));
    const bridge = bridges?.spec?.template?.spec.containers[0];
    checkOptions(bridge?.args ?? []);
    assert.ok(bridge?.args?.includes("--interface"));
    const hub = hubs?.spec?.template?.spec.containers[0];
    assert.notEqual(bridge?.securityContext?.runAsUser, hub?.securityContext?.runAsUser);
    const mounts = new Map(bridge?.volumeMounts.map((it) => [it.mountPath, it.readOnly]));
    const own = bridge?.env?.find(({ name }) => name === "CUDA_IPC_BRIDGE_SOCKET")?.value ?? "";
    assert.deepEqual([mounts.get("/run/cuda-ipc"), mounts.has(dirname(own))], [true, true]);
    const token = bridge?.env?.find(({ name }) => name === "CUDA_IPC_NATS_TOKEN");
    assert.deepEqual([token?.value, token?.valueFrom?.secretKeyRef?.name], [undefined, SECRET]);
    const service = rest.find(({ kind }) => kind === "Service")?.metadata?.name;
    const url = bridge?.env?.find(({ name }) => name === "CUDA_IPC_NATS")?.value;
    assert.equal(url, `nats://${service}`);
  });

  it("compose-machines.yaml: hub and bridge share a volume, the token is no part of it", async () => {
    const [compose] = (await parsed("compose-machines.yaml")) as unknown as {
      services: Record<string, Service>;
      configs: Record<string, { content: string }>;
    }[];
    assert.ok(compose !== undefined);
    const { hub, bridge, nats } = compose.services;
    assert.deepEqual(
      hub?.volumes.map((it) => `${it}:ro`),
      bridge?.volumes,
    );
    const { user = "root", environment = {}, tmpfs = [] } = bridge ?? {};
    const [uid] = user.split(":");
    const folder = dirname(environment.CUDA_IPC_BRIDGE_SOCKET ?? "");
    assert.deepEqual([hub?.user, tmpfs], [undefined, [`${folder}:mode=0700,uid=${uid}`]]);
    assert.match(environment.CUDA_IPC_BRIDGE_INTERFACE ?? "", /^\$\{BRIDGE_INTERFACE:\?/);
    assert.equal(
      bridge?.environment?.CUDA_IPC_SOCKET,
      checkConfig(compose.configs["hub-config"]?.content ?? ""),
    );
    assert.match(bridge?.environment?.CUDA_IPC_NATS_TOKEN ?? "", /^\$\{NATS_TOKEN:\?/);
    assert.match(nats?.command.join(" ") ?? "", /^-js --auth \$\{NATS_TOKEN:\?/);
    assert.equal(bridge?.network_mode, "host");
    checkOptions(bridge?.command ?? []);
  });

  it("fit the schemas of Kubernetes and of Compose", { skip: whyNoSchemas() }, () => {
    const files = readdirSync(FOLDER).map((file) => `${FOLDER}/${file}`);
    const compose = files.filter((file) => /\/compose.*\.yaml$/.test(file));
    const manifests = files.filter((file) => file.endsWith(".yaml") && !compose.includes(file));
    const failures = [
      python("kubernetes_validate", "--strict", ...manifests),
      python("check_jsonschema", "--builtin-schema", "vendor.compose-spec", ...compose),
    ];
    assert.deepEqual(failures, ["", ""]);
    // The tools see a mistake.
    using folder = new TestFolder();
    const wrong = folder.file("wrong.yaml");
    writeFileSync(
      wrong,
      "apiVersion: v1\nkind: Service\nmetadata: { name: x }\nspec: { ports: [{ port: no }] }\n",
    );
    assert.match(python("kubernetes_validate", "--strict", wrong), /port/);
    writeFileSync(wrong, "services: { hub: { image: x, volumes: 5 } }\n");
    const schema = ["--builtin-schema", "vendor.compose-spec"];
    assert.match(python("check_jsonschema", ...schema, wrong), /volumes/);
  });
});

interface Service {
  readonly volumes: readonly string[];
  readonly command: readonly string[];
  readonly environment?: Record<string, string>;
  readonly network_mode?: string;
  readonly user?: string;
  readonly tmpfs?: readonly string[];
}

/** Each option is one that `cuda-ipc bridge` knows. */
function checkOptions(args: readonly string[]): void {
  const command = readFileSync("src/cli/commands/bridge.ts", "utf8");
  const options = args.filter((argument) => argument.startsWith("--"));
  assert.ok(options.length > 0);
  for (const option of options) assert.ok(command.includes(`"${option} <`), option);
}

function whyNoSchemas(): string | false {
  if (process.env.REQUIRE_SCHEMAS === "1") return false;
  const found =
    python("kubernetes_validate", "--version") + python("check_jsonschema", "--version");
  return found === "" ? false : "needs kubernetes-validate and check-jsonschema of PyPI";
}

/** What a module of Python prints if it fails. */
function python(module: string, ...args: readonly string[]): string {
  const program = process.env.PYTHON ?? "python3";
  const { status, stdout, stderr, error } = spawnSync(program, ["-m", module, ...args], {
    encoding: "utf8",
  });
  return status === 0 ? "" : `${stdout}${stderr}${error?.message ?? ""}`;
}
