// Encodes a text with llama.cpp, as node-llama-cpp carries it:
//   node llamacpp.mjs PACKAGES TEXT 0|1 MODEL=IDS...
// The third argument says whether special tokens in the text are parsed. Ids go to the file IDS,
// one line, without BOS and EOS.
import fs from 'node:fs';
import {createRequire} from 'node:module';
import {pathToFileURL} from 'node:url';

const [packages, text, special, ...jobs] = process.argv.slice(2);
const require = createRequire(packages + '/');
const {getLlama} = await import(pathToFileURL(require.resolve('node-llama-cpp')).href);
const llama = await getLlama({gpu: false, build: 'never', logLevel: 'disabled'});
for (const job of jobs) {
  const [modelPath, ids] = job.split('=');
  const model = await llama.loadModel({modelPath, vocabOnly: true});
  const source = fs.readFileSync(text, 'utf8');
  fs.writeFileSync(ids, Array.from(model.tokenize(source, special === '1')).join(' ') + '\n');
  await model.dispose();
}
process.exit(0);
