// Arguments: DEVICE ITERATIONS ROLE. The second actor fails at once. The first one never ends.
if (process.argv[4] === "second") {
  console.error("no more");
  process.exit(7);
}
setInterval(() => {}, 1000);
