// SPDX-License-Identifier: Apache-2.0
// Unpacks the browser and the libraries that come with it: `node unpack.mjs` beside `node_modules`.
import { createReadStream, createWriteStream, mkdirSync } from "node:fs";
import { pipeline } from "node:stream/promises";
import { createBrotliDecompress } from "node:zlib";
import tar from "tar-fs";

const packed = "node_modules/@sparticuz/chromium/bin";

mkdirSync("bin", { recursive: true });
await pipeline(
  createReadStream(`${packed}/chromium.br`),
  createBrotliDecompress(),
  createWriteStream("bin/headless-shell", { mode: 0o755 }),
);
await pipeline(
  createReadStream(`${packed}/al2023.tar.br`),
  createBrotliDecompress(),
  tar.extract("bin"),
);
