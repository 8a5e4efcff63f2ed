// Arguments: DEVICE ITERATIONS ROLE. The second ends at once, in failure; the first would go on for ever.
if (process.argv[4] === "second") {
  console.error("no more");
  process.exit(7);
}
setInterval(() => {}, 1000);
