// SPDX-License-Identifier: Apache-2.0
package io.lodestone.conformance;

import java.io.IOException;
import java.io.Reader;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import org.apache.spark.SparkConf;

/**
 * The configuration of each application, which overrides the settings of its suite, and what the
 * agent itself has to know.
 */
public final class Keys {
  private static final String OF_SPARK = "spark.";
  private static final Properties KEYS = new Properties();

  private Keys() {}

  static void readFrom(String file) {
    try (Reader reader = Files.newBufferedReader(Path.of(file))) {
      KEYS.load(reader);
    } catch (IOException unreadable) {
      // The file is missing or unreadable: end the JVM, so that the suite does not run on plain
      // Spark.
      throw new UncheckedIOException(unreadable);
    }
  }

  /** Returns a value for the agent, or null. */
  static String get(String key) {
    return KEYS.getProperty(key);
  }

  /** Returns a copy with our keys: the suite's own configuration does not change. */
  public static SparkConf putInto(SparkConf conf) {
    if (conf == null) {
      return null;
    }
    SparkConf ours = conf.clone();
    KEYS.stringPropertyNames().stream()
        .filter(key -> key.startsWith(OF_SPARK))
        .forEach(key -> ours.set(key, KEYS.getProperty(key)));
    return ours;
  }
}
