// SPDX-License-Identifier: Apache-2.0
package org.apache.gluten.memory.memtarget;

/**
 * Stands for gluten-core/src/main/java/org/apache/gluten/memory/memtarget/MemoryTarget.java of
 * apache/incubator-gluten, v1.6.0 (89718982).
 */
public interface MemoryTarget {}
