import dev.delayq.App;
import dev.delayq.Receipt;
import dev.delayq.Task;
import java.time.Duration;

public class Send {
    record Order(int order) {}

    public static void main(String[] arguments) {
        App app = new App();
        Task task = Task.of("order.cancel", new Order(42)).id("order-42").after(Duration.ofSeconds(2));
        Receipt receipt = app.send(task);
        System.out.println(receipt.outcome() + ", due at " + receipt.dueAt());
    }
}
