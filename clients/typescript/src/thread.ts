import { parentPort, workerData } from "node:worker_threads";
import { Heart, type Order } from "./heartbeat.js";

const heart = new Heart({ ...workerData, fetch: globalThis.fetch }, (beat) => parentPort!.postMessage(beat));
parentPort!.on("message", (order: Order) => heart.take(order));
