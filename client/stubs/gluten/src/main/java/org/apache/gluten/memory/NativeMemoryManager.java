// SPDX-License-Identifier: Apache-2.0
package org.apache.gluten.memory;

import org.apache.gluten.memory.memtarget.Spiller;

/**
 * Stands for gluten-arrow/src/main/scala/org/apache/gluten/memory/NativeMemoryManager.scala of
 * apache/incubator-gluten, v1.6.0 (89718982).
 */
public interface NativeMemoryManager {
  void addSpiller(Spiller spiller);
}
