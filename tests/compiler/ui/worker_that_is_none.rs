use delayq_plugin::*;

struct Cancel;

fn main() {
    let _ = DelayQueuePlugin::builder().worker("order.cancel", WorkerOptions::DEFAULT, Cancel);
}
