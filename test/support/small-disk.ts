/** A disk of its own for a test, which it may fill. Needs root. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { TestFolder } from "./test-folder.js";

/** A folder on a small disk. */
export class SmallDisk implements Disposable {
  readonly folder = new TestFolder();
  readonly skip: string | false;

  constructor(size: string, filesMax = 1000) {
    const { path } = this.folder;
    const options = `size=${size},nr_inodes=${filesMax},mode=0700`;
    const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", options, "none", path]).status === 0;
    this.skip = !mounted && "no disk can be mounted here";
  }

  /** Fills the disk. */
  fill(): void {
    const { path } = this.folder;
    for (let bytes = 64 * 1024; bytes >= 1; bytes = Math.floor(bytes / 2)) {
      try {
        for (;;) writeFileSync(this.folder.file("filler"), new Uint8Array(bytes), { flag: "a" });
      } catch (error) {
        if (!(error instanceof Error && "code" in error && error.code === "ENOSPC")) throw error;
      }
    }
    assert.equal(statfsSync(path).bavail, 0);
  }

  /** Takes all files that there may be. */
  fillWithFiles(): void {
    assert.throws(
      () => {
        for (let i = 0; ; i += 1) writeFileSync(this.folder.file(`filler${i}`), "");
      },
      { code: "ENOSPC" },
    );
  }

  /** Makes room again. */
  clear(): void {
    for (const name of readdirSync(this.folder.path))
      if (name.startsWith("filler")) rmSync(this.folder.file(name));
  }

  [Symbol.dispose](): void {
    if (this.skip === false) spawnSync("umount", ["-l", this.folder.path]);
    this.folder[Symbol.dispose]();
  }
}
