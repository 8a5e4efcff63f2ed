/** The seam's part on several devices of one process. */
import type { DevicePointer, DriverStream } from "./gpu-driver.js";

export interface PeerCalls {
  /** Whether `ordinal` can use memory of `peer` directly (NVLink, PCIe peer to peer). True for one and the same device. */
  canAccessPeer(ordinal: number, peer: number): boolean;
  /** Lets kernels and copies of `ordinal` use legacy memory of `peer`; twice is as once. @throws PEER_ACCESS_UNSUPPORTED */
  enablePeerAccess(ordinal: number, peer: number): void;
  /**
   * Enqueues a copy between devices; directly where they can reach each other, by way of the host where they cannot (the driver does it).
   * The stream is of either device.
   */
  copyBetweenDevices(
    stream: DriverStream,
    to: { readonly ordinal: number; readonly pointer: DevicePointer },
    from: { readonly ordinal: number; readonly pointer: DevicePointer },
    byteLength: number,
  ): void;
}
