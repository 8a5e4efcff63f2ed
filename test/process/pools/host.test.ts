import { describePools } from "./describe-pools.js";

describePools({ device: "host" });
