// The commands of beanstalkd through jackd. One argument: the port of the server.
'use strict'

const assert = require('assert')
const JackdClient = require('jackd')

const port = Number(process.argv[2])
const refused = (promise, answer) => assert.rejects(promise, { message: answer })

async function connected(tube) {
  const client = new JackdClient()
  await client.connect({ host: '127.0.0.1', port })
  if (tube) {
    await client.use(tube)
    await client.watch(tube)
    await client.ignore('default')
  }
  return client
}

async function jobsGoThroughTheirStates() {
  const client = await connected('states')
  const late = await client.put('late', { priority: 1, delay: 1, ttr: 9 })
  const low = await client.put({ order: 42 }, { priority: 20 })
  const high = await client.put('high', { priority: 10 })
  assert.equal((await client.peekDelayed()).id, late)
  assert.equal((await client.peekReady()).id, high)
  assert.match(await client.statsJob(late), /state: delayed[^]*pri: 1\n[^]*delay: 1\n[^]*ttr: 9\n/)

  let job = await client.reserve()
  assert.equal(job.id, high)
  await client.touch(high)
  await client.release(high, { priority: 30, delay: 0 })
  job = await client.reserve()
  assert.deepEqual([job.id, JSON.parse(job.payload.toString())], [low, { order: 42 }])
  await client.delete(low)
  assert.equal((await client.reserveJob(high)).payload.toString(), 'high')
  await client.bury(high, 5)
  assert.equal((await client.peekBuried()).id, high)
  assert.equal(await client.kick(10), 1)
  await client.delete(high)

  job = await client.reserveWithTimeout(5)
  assert.equal(job.id, late)
  await client.release(late, { priority: 1, delay: 600 })
  await client.kickJob(late)
  assert.equal((await client.peek(late)).payload.toString(), 'late')
  await client.delete(late)
  await refused(client.reserveWithTimeout(0), 'TIMED_OUT')
  await refused(client.delete(late), 'NOT_FOUND')
  await client.quit()
}

async function tubesAreWatchedAndIgnored() {
  const client = await connected()
  assert.equal(await client.watch('tube'), 2)
  assert.equal(await client.ignore('default'), 1)
  await refused(client.ignore('tube'), 'NOT_IGNORED')
  await client.use('tube')
  assert.equal(await client.listTubeUsed(), 'tube')
  assert.match(await client.listTubesWatched(), /- "?tube"?\n$/)
  assert.match(await client.listTubes(), /- "?tube"?\n/)
  const job = await client.put('x')
  // Its `pauseTube` sends a line without an end, which no server answers.
  assert.match(await client.statsTube('tube'), /current-jobs-ready: 1\n[^]*pause: 0\n/)
  assert.equal((await client.reserveWithTimeout(5)).id, job)
  await client.delete(job)
  assert.match(await client.stats(), /max-job-size: 65535\n/)
  await client.quit()
}

async function manyRequestsAreAnsweredInOrder() {
  const [producer, consumer] = [await connected('many'), await connected('many')]
  const bodies = Array.from({ length: 200 }, (_, n) => `job ${n}\r\n`)
  const puts = Promise.all(bodies.map((body) => producer.put(body)))
  for (const body of bodies) {
    const job = await consumer.reserve()
    assert.equal(job.payload.toString(), body)
    await consumer.delete(job.id)
  }
  assert.equal(new Set(await puts).size, bodies.length)
  await producer.quit()
  await consumer.quit()
}

async function main() {
  for (const check of [
    jobsGoThroughTheirStates,
    tubesAreWatchedAndIgnored,
    manyRequestsAreAnsweredInOrder,
  ]) {
    console.log(check.name)
    await check()
  }
}

// An answer that never comes ends the program without an error.
process.exitCode = 1
main().then(() => (process.exitCode = 0), console.error)
