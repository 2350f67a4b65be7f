package dev.delayq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;

/** Every program of the README, the guide and the examples is compiled, and run if it is one. */
class GuideTest {
    private static final Pattern BLOCK = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL);
    private static final Pattern CLASS = Pattern.compile("public class (\\w+)");
    private static final String SNIPPET = """
            import dev.delayq.*;
            import java.time.*;
            import java.util.*;
            import java.util.concurrent.*;
            import java.util.concurrent.atomic.*;
            import java.util.stream.*;
            public class Snippet {
                public static void main(String[] arguments) throws Exception {
                    App app = new App();
            %s
                }
            }
            """;

    @Test
    void everyProgramRuns() throws Exception {
        Set<String> programs = new LinkedHashSet<>(); // an example may be that of the README
        for (String page : List.of("README.md", "../../docs/guide/client-java.md")) {
            Matcher blocks = BLOCK.matcher(Files.readString(Path.of(page)));
            while (blocks.find()) programs.add(blocks.group(1));
        }
        try (Stream<Path> examples = Files.list(Path.of("examples"))) {
            for (Path example : examples.toList()) programs.add(Files.readString(example));
        }
        assertTrue(programs.size() > 12, "they are found");
        try (Server server = new Server()) {
            for (String program : programs) run(server, program);
        }
    }

    private boolean worked;

    private void run(Server server, String program) throws Exception {
        Matcher named = CLASS.matcher(program);
        String name = named.find() ? named.group(1) : "Snippet";
        String source = name.equals("Snippet") ? SNIPPET.formatted(program) : program;
        Path folder = Files.createTempDirectory("delayq-guide");
        Path file = Files.writeString(folder.resolve(name + ".java"), source);
        String classes = System.getProperty("java.class.path");
        int compiled = ToolProvider.getSystemJavaCompiler().run(
                null, null, null, "-cp", classes, "-d", folder.toString(), file.toString());
        assertEquals(0, compiled, source);
        if (!source.contains("void main(")) return;
        Path log = folder.resolve("log");
        ProcessBuilder builder = new ProcessBuilder("java", "-cp", folder + java.io.File.pathSeparator + classes, name);
        builder.environment().put("DELAYQ_HTTP", server.url);
        builder.environment().put("DELAYQ_TOKEN", Server.TOKEN);
        Process process = builder.redirectErrorStream(true).redirectOutput(log.toFile()).start();
        if (source.contains("app.run();")) {
            for (int tries = 0; tries < 80 && Files.size(log) == 0; tries++) TimeUnit.MILLISECONDS.sleep(100);
            process.destroy();
        }
        assertTrue(process.waitFor(30, TimeUnit.SECONDS), source);
        assertEquals(0, process.exitValue(), source + Files.readString(log));
        if (name.equals("Work") && !worked) {
            worked = true;
            assertTrue(Files.readString(log).contains("cancel order 42"), Files.readString(log));
        }
    }
}
