// SPDX-License-Identifier: Apache-2.0
package io.lodestone.yarn;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SecretFilesSuite {
  private static final String NO_RECOVERY =
      "{\"spark.yarn.shuffle.server.recovery.disabled\":true,\"secret\":\"5ec2e7\"}";

  @TempDir Path folder;
  private SecretFiles secrets;

  @BeforeEach
  void open() throws IOException {
    secrets = new SecretFiles(folder.resolve("secrets"));
  }

  private static ServiceData parse(String text) throws IOException {
    return ServiceData.parse(ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8)));
  }

  private Set<String> names() throws IOException {
    try (var files = Files.list(secrets.directory())) {
      return files.map(file -> file.getFileName().toString()).collect(Collectors.toSet());
    }
  }

  @Test
  void onlyTheUserOfTheNodeManagerReadsASecret() throws IOException {
    secrets.put("app-1", parse("ab12"));
    secrets.put("app-2", parse(NO_RECOVERY));
    Path first = secrets.directory().resolve("app-1");
    assertEquals("ab12", Files.readString(first));
    assertEquals("5ec2e7", Files.readString(secrets.directory().resolve("app-2")));
    String mode = PosixFilePermissions.toString(Files.getPosixFilePermissions(first));
    assertEquals("rw-------", mode);
    mode = PosixFilePermissions.toString(Files.getPosixFilePermissions(secrets.directory()));
    assertEquals("rwx------", mode);
  }

  @Test
  void theNextNodeManagerFindsOnlySecretsOfApplicationsThatWantRecovery() throws IOException {
    secrets.put("app-1", parse("ab12"));
    secrets.put("app-2", parse(NO_RECOVERY));
    secrets.put("app-2", parse(NO_RECOVERY));
    // A NodeManager was killed here.
    Files.writeString(secrets.directory().resolve(".secret-123.tmp"), "half");
    secrets.sweep();
    assertEquals(Set.of("app-1"), names());
  }

  @Test
  void nothingIsLeftOfAnApplicationThatHasEnded() throws IOException {
    secrets.put("app-1", parse("ab12"));
    secrets.put("app-2", parse(NO_RECOVERY));
    secrets.remove("app-1");
    secrets.remove("app-2");
    secrets.remove("app-3");
    assertEquals(Set.of(), names());
  }

  @Test
  void anApplicationThatDoesNotAuthenticateHasNoSecret() throws IOException {
    secrets.put("app-1", parse(""));
    secrets.put("app-2", parse("{\"spark.yarn.shuffle.server.recovery.disabled\":true}"));
    assertEquals(Set.of(), names());
    String unknown = "{\"secret\": [1]}";
    String message = assertThrows(IOException.class, () -> parse(unknown)).getMessage();
    assertTrue(message.contains("not known"), message);
  }
}
