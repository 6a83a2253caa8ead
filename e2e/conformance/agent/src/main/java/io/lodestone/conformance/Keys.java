// SPDX-License-Identifier: Apache-2.0
package io.lodestone.conformance;

import java.io.IOException;
import java.io.Reader;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import org.apache.spark.SparkConf;

/** What each application is configured with, whatever its suite has set. */
public final class Keys {
  private static final Properties KEYS = new Properties();

  private Keys() {}

  static void readFrom(String file) {
    try (Reader reader = Files.newBufferedReader(Path.of(file))) {
      KEYS.load(reader);
    } catch (IOException unreadable) {
      // The file is not there, or is none of ours: the JVM ends, rather than run the suite plain.
      throw new UncheckedIOException(unreadable);
    }
  }

  /** A copy: what the suite holds stays as it was made. */
  public static SparkConf putInto(SparkConf conf) {
    if (conf == null) {
      return null;
    }
    SparkConf ours = conf.clone();
    KEYS.stringPropertyNames().forEach(key -> ours.set(key, KEYS.getProperty(key)));
    return ours;
  }
}
