// SPDX-License-Identifier: Apache-2.0
package org.apache.gluten.shuffle

/**
 * Stands for gluten-substrait/src/main/scala/org/apache/gluten/shuffle/
 * SupportsColumnarShuffle.scala of apache/incubator-gluten, v1.6.0 (89718982).
 */
trait SupportsColumnarShuffle
