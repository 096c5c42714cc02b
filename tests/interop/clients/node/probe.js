'use strict';
// Uses a cluster through a client for Node, ali-ons or a package made from it: probe.js PACKAGE NAMESRV PREFIX MODE...

const [ folder, namesrv, prefix, ...modes ] = process.argv.slice(2);
const { Consumer, Producer, Message } = require(folder);

const SENT = 10;
const ORDERED = 12;
const Generators = Object.getPrototypeOf(function* () {}).constructor;
const olds = Producer.prototype.send instanceof Generators; // package rocketmq knows no promises
const promised = olds ? require(require.resolve('co', { paths: [ folder ] })) : value => value;
const open = [];
let ended = false;

function say(mode, kind, members) {
  console.log(JSON.stringify({ mode, kind, ...members }));
}

const sleep = millis => new Promise(resolve => setTimeout(resolve, millis));
const quiet = { info() {}, debug() {}, warn() {}, error(...words) { console.error(...words); } };
const topic = mode => `${prefix}-${mode}`;

function options(mode, instanceName, more) {
  return {
    httpclient: {}, onsAddr: 'none', nameSrv: namesrv, namesrvAddr: namesrv, logger: quiet, instanceName, consumerGroup: topic(mode),
    producerGroup: topic(mode), consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET', rebalanceInterval: 2000, ...more,
  };
}

async function producer(mode) {
  const made = new Producer(options(mode, `${mode}-producer`));
  made.on('error', e => say(mode, 'error', { text: String(e) }));
  await promised(made.ready());
  open.push(made);
  return made;
}

async function sendOne(made, mode, message, body) {
  const result = await promised(made.send(message));
  say(mode, 'sent', {
    body, id: result.msgId, queue: result.messageQueue.queueId, offset: Number(result.queueOffset),
    text: result.sendStatus,
  });
}

async function send(mode) {
  const made = await producer(mode);
  for (let i = 0; i < (mode === 'ordered' ? ORDERED : SENT); i++) {
    const message = new Message(topic(mode), 'AB'[i % 2], String(i));
    message.keys = [ `k-${i}` ];
    if (mode === 'ordered') message.shardingKey = `shard-${i % 3}`;
    if (mode === 'delay') message.delayTimeLevel = 2;
    await sendOne(made, mode, message, String(i));
    if (mode === 'delay') break;
  }
}

async function consume(mode, who) {
  const made = new Consumer(options(mode, `${mode}-${who}`, { isBroadcast: mode === 'broadcast' }));
  made.on('error', e => say(mode, 'error', { text: String(e) }));
  const expression = { tags: 'A || B', sql: { expressionType: 'SQL92', subString: 'a > 4' } }[mode] || '*';
  const listen = message => {
    say(mode, 'got', {
      who, body: message.body.toString(), tags: message.tags, keys: message.keys, queue: message.queueId,
      offset: Number(message.queueOffset), times: message.reconsumeTimes,
    });
    if (mode === 'retry' && message.reconsumeTimes === 0) return Consumer.ACTION_RETRY;
  };
  made.subscribe(topic(mode), expression, olds ? function* (message) { listen(message); } : async message => listen(message));
  await promised(made.ready());
  open.push(made);
}

async function steady(mode) {
  await consume(mode, 0);
  const made = await producer(mode);
  say(mode, 'ready');
  for (let i = 0; !ended; i++) {
    try {
      await sendOne(made, mode, new Message(topic(mode), 'A', String(i)), String(i));
    } catch (e) {
      say(mode, 'error', { text: String(e) });
    }
    await sleep(200);
  }
}

async function run(mode) {
  try {
    if ([ 'send', 'ordered', 'delay' ].includes(mode)) await send(mode);
    else if (mode === 'steady') await steady(mode);
    else {
      await consume(mode, 0);
      if (mode === 'broadcast') await consume(mode, 1);
    }
    say(mode, 'ready');
  } catch (e) {
    say(mode, 'error', { text: String(e) });
  }
}

process.on('unhandledRejection', e => say('all', 'error', { text: String(e) }));
const running = modes.map(run);
process.stdin.resume();
process.stdin.on('end', async () => {
  ended = true;
  await Promise.all(running);
  await Promise.race([ Promise.all(open.map(each => promised(each.close()))), sleep(10000) ]);
  say('all', 'closed');
  process.exit(0);
});
