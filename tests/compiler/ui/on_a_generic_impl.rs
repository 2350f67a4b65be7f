use delayq_plugin::*;

#[derive(Default)]
struct Mail<T>(T);

#[task_worker(type = "a")]
impl<T: Default + Send + Sync + 'static> TaskWorker for Mail<T> {
    async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
        Ok(())
    }
}

fn main() {}
