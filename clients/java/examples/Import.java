import dev.delayq.App;
import dev.delayq.Task;
import dev.delayq.TaskOptions;
import java.time.Duration;
import java.util.List;
import java.util.stream.IntStream;

/** A batch with a report at its end: run it, and stop it with Ctrl-C. */
public class Import {
    record Row(int row) {}

    public static void main(String[] arguments) {
        App app = new App();
        app.task("row.import", Row.class, TaskOptions.defaults().concurrency(8), (row, cx) -> Thread.sleep(10));
        app.task("import.report", String.class, (name, cx) -> {
            System.out.println(name + ": " + cx.headers().get("delayq-batch"));
        });
        List<Task> rows = IntStream.range(0, 50).mapToObj(row -> Task.of("row.import", new Row(row))).toList();
        Task report = Task.of("import.report", "the import").after(Duration.ZERO);
        app.sendBatch("import-" + System.currentTimeMillis(), rows, report);
        app.run();
    }
}
