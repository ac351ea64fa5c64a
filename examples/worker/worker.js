// SPDX-License-Identifier: MIT
// A worker for berth. It has a real dependency (ms), writes to both streams, and handles SIGTERM.
//
//   node worker.js convert [DURATION…]   prints each in milliseconds; without any, the lines of stdin
//   node worker.js tick [DURATION]       prints a line now and then until it is told to stop
'use strict';

const ms = require('ms');

const say = (text) => process.stdout.write(`${text}\n`);
const log = (text) => process.stderr.write(`worker: ${text}\n`);

function convert(words) {
  let bad = 0;
  for (const word of words) {
    const value = ms(word);
    if (value === undefined) {
      log(`"${word}" is no duration`);
      bad++;
    } else {
      say(`${word} = ${value} ms`);
    }
  }
  log(`${words.length - bad} of ${words.length} converted`);
  process.exitCode = bad ? 1 : 0;
}

async function readLines(stream) {
  let text = '';
  for await (const chunk of stream.setEncoding('utf8')) text += chunk;
  return text.split('\n').map((line) => line.trim()).filter(Boolean);
}

function tick(every) {
  const started = Date.now();
  let n = 0;
  const timer = setInterval(() => {
    say(`tick ${++n}`);
    if (n % 5 === 0) log(`up for ${ms(Date.now() - started, { long: true })}`);
  }, every);
  // berth sends TERM to the whole tree and waits for the grace before KILL: time to finish.
  process.once('SIGTERM', () => {
    clearInterval(timer);
    log('TERM: finishing');
    say(`stopped after ${n} ticks`);
    process.exitCode = 0;
  });
  log(`ticking every ${ms(every)}`);
}

async function main([what = 'tick', ...words]) {
  log(`${process.env.GREETING || 'hello'} from node ${process.version}, process ${process.pid}`);
  if (what === 'convert') {
    convert(words.length ? words : await readLines(process.stdin));
  } else if (what === 'tick') {
    const every = ms(words[0] || '200ms');
    if (!(every > 0)) throw new Error(`"${words[0]}" is no duration`);
    tick(every);
  } else {
    log(`unknown: ${what}`);
    process.exitCode = 2;
  }
}

main(process.argv.slice(2)).catch((error) => {
  log(error.stack);
  process.exitCode = 1;
});
