// Arguments: DEVICE ITERATIONS ROLE. The second actor fails at once; the first would run for ever.
if (process.argv[4] === "second") {
  console.error("no more");
  process.exit(7);
}
setInterval(() => {}, 1000);
