// SPDX-License-Identifier: Apache-2.0
package org.apache.auron.jni;

import java.util.concurrent.ConcurrentHashMap;

/**
 * Stands for org.apache.auron.jni.JniBridge of Apache Auron (releases 7.0.0, 8.0.0; commit
 * 4b0a3451, auron-core/src/main/java/org/apache/auron/jni/JniBridge.java): what native code finds
 * by a name.
 */
public final class JniBridge {
  private static final ConcurrentHashMap<String, Object> RESOURCES = new ConcurrentHashMap<>();

  private JniBridge() {}

  /** Native code calls it once for each name. */
  public static Object getResource(String key) {
    return RESOURCES.remove(key);
  }

  public static void putResource(String key, Object value) {
    RESOURCES.put(key, value);
  }
}
