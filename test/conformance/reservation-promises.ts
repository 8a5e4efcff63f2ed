import assert from "node:assert/strict";
import { it } from "node:test";
import type { ErrorCode } from "../../src/base/error-codes.js";
import { hasCode } from "../../src/base/errors.js";
import type { DriverMemory } from "../../src/driver/gpu-driver.js";
import type { DriverReservation } from "../../src/driver/memory-calls.js";
import { type ConformanceRig, noise } from "./conformance-rig.js";
import type { Subject } from "./describe-conformance.js";

function reserved(rig: ConformanceRig, granules: number): DriverReservation {
  const reservation = rig.driver.reserveAddresses(0, granules * rig.granularity);
  return rig.own(reservation, (it) => rig.driver.releaseReservation(it));
}

function assertCode(code: ErrorCode, attempt: () => unknown): void {
  assert.throws(attempt, (error) => hasCode(error, code), `${code}: ${attempt}`);
}

export function reservationPromises({ rig }: Subject): void {
  it("grows memory in place: address and content stay, and copies cross the pieces", async () => {
    const { driver, granularity } = rig();
    const reservation = reserved(rig(), 8);
    const { pointer } = reservation;
    driver.extendMapping(reservation, rig().memory(granularity), "read-write");
    await rig().write(pointer, noise(granularity, 1));
    driver.extendMapping(reservation, rig().memory(2 * granularity), "read-write");
    driver.extendMapping(reservation, rig().memory(granularity), "read-write");
    assert.equal(reservation.pointer, pointer);
    assert.equal(reservation.mappedBytes, 4 * granularity);
    assert.deepEqual(await rig().read(pointer, granularity), noise(granularity, 1));
    const whole = noise(4 * granularity, 2);
    await rig().write(pointer, whole);
    const middle = await rig().read(pointer + 100n, 3 * granularity);
    assert.deepEqual(middle, whole.slice(100, 100 + 3 * granularity));
  });

  it("maps pieces of another reservation by their descriptors, in the same order", async () => {
    const { driver, granularity } = rig();
    const [exporter, importer] = [reserved(rig(), 4), reserved(rig(), 4)];
    const pieces: readonly DriverMemory[] = [
      rig().memory(granularity),
      rig().memory(2 * granularity),
    ];
    for (const piece of pieces) {
      driver.extendMapping(exporter, piece, "read-write");
      const imported = driver.importMemory(0, rig().exported(piece), piece.byteLength);
      driver.extendMapping(importer, imported, "read");
      driver.releaseMemory(imported);
    }
    const content = noise(3 * granularity, 3);
    await rig().write(exporter.pointer, content);
    assert.deepEqual(await rig().read(importer.pointer, 3 * granularity), content);
    const stream = rig().stream();
    assertCode("READ_ONLY", () =>
      driver.fill(stream, importer.pointer, { elementBytes: 1, value: 1 }, 1),
    );
  });

  it("keeps the mapping after its handle is released", async () => {
    const { driver, granularity } = rig();
    const reservation = reserved(rig(), 1);
    const memory = driver.createMemory(0, granularity);
    driver.extendMapping(reservation, memory, "read-write");
    driver.releaseMemory(memory);
    await rig().write(reservation.pointer, noise(granularity, 4));
    assert.deepEqual(await rig().read(reservation.pointer, granularity), noise(granularity, 4));
  });

  it("checks operations against the mapped bytes, not the reserved ones", () => {
    const { driver, granularity } = rig();
    const reservation = reserved(rig(), 4);
    driver.extendMapping(reservation, rig().memory(granularity), "read-write");
    const stream = rig().stream();
    const beyond = () =>
      driver.fill(
        stream,
        reservation.pointer + 8n,
        { elementBytes: 1, value: 1 },
        reservation.mappedBytes,
      );
    assert.throws(beyond, RangeError);
    driver.extendMapping(reservation, rig().memory(granularity), "read-write");
    driver.fill(stream, reservation.pointer + 8n, { elementBytes: 1, value: 1 }, granularity);
    assert.throws(() => driver.unmapMemory(0, reservation.pointer), RangeError);
  });

  it("refuses memory that does not fit, and stays unchanged", async () => {
    const { driver, granularity } = rig();
    const reservation = reserved(rig(), 2);
    driver.extendMapping(reservation, rig().memory(granularity), "read-write");
    const large = rig().memory(2 * granularity);
    const fitting = rig().memory(granularity);
    assertCode("LIMIT_EXCEEDED", () => driver.extendMapping(reservation, large, "read-write"));
    assert.throws(() => driver.extendMapping(reservation, fitting, "read"), TypeError);
    const released = driver.createMemory(0, granularity);
    driver.releaseMemory(released);
    assertCode("CLOSED", () => driver.extendMapping(reservation, released, "read-write"));
    assert.equal(reservation.mappedBytes, granularity);
    driver.extendMapping(reservation, fitting, "read-write");
    await rig().write(reservation.pointer, noise(2 * granularity, 5));
  });

  it("refuses impossible sizes, and a released reservation", () => {
    const { driver, granularity } = rig();
    for (const wrong of [0, -granularity, granularity + 1, Number.NaN]) {
      assert.throws(() => driver.reserveAddresses(0, wrong), RangeError, String(wrong));
    }
    assertCode("DEVICE_NOT_FOUND", () => driver.reserveAddresses(9, granularity));
    const reservation = driver.reserveAddresses(0, granularity);
    driver.releaseReservation(reservation);
    assertCode("CLOSED", () => driver.releaseReservation(reservation));
    assertCode("CLOSED", () =>
      driver.extendMapping(reservation, rig().memory(granularity), "read"),
    );
    const foreign = { ordinal: 0, pointer: 4096n, byteLength: granularity, mappedBytes: 0 };
    assert.throws(() => driver.releaseReservation(foreign), TypeError);
  });
}
