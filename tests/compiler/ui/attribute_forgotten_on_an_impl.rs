use delayq_plugin::*;

struct Cancel;

impl TaskWorker for Cancel {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        Ok(())
    }
}

fn main() {}
