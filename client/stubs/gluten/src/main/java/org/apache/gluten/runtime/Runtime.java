// SPDX-License-Identifier: Apache-2.0
package org.apache.gluten.runtime;

import org.apache.gluten.memory.NativeMemoryManager;

/**
 * Stands for gluten-arrow/src/main/scala/org/apache/gluten/runtime/Runtime.scala of
 * apache/incubator-gluten, v1.6.0 (89718982).
 */
public interface Runtime {
  NativeMemoryManager memoryManager();

  long getHandle();
}
