import dev.delayq.App;
import dev.delayq.Retry;
import dev.delayq.TaskOptions;
import java.time.Duration;

public class Work {
    record Order(int order) {}

    public static void main(String[] arguments) {
        App app = new App();
        TaskOptions options = TaskOptions.defaults()
                .concurrency(4)
                .lock(Duration.ofMinutes(1))
                .retry(Retry.exponential(5, Duration.ofSeconds(1), Duration.ofMinutes(10)));
        app.task("order.cancel", Order.class, options, (order, cx) -> {
            System.out.println("cancel order " + order.order() + ", attempt " + cx.attempt());
        });
        app.run();
    }
}
