// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import org.apache.spark.shuffle.BaseShuffleHandle
import org.apache.spark.shuffle.lodestone.wire.Application

/**
 * A shuffle that may be merged, or be remote. `inner` is Spark's own handle, which decides how maps
 * are written. The application comes from the driver, so that all executors give the services the same name.
 */
private[spark] final class LodestoneHandle[K, V, C](
    val inner: BaseShuffleHandle[K, V, C],
    val app: Application,
    val isRemote: Boolean)
    extends BaseShuffleHandle[K, V, C](inner.shuffleId, inner.dependency)

/**
 * A shuffle that is left to Spark, but for who writes its map outputs. No service has to do with it.
 * `inner` is Spark's own handle.
 */
private[spark] final class LocalHandle[K, V, C](val inner: BaseShuffleHandle[K, V, C])
    extends BaseShuffleHandle[K, V, C](inner.shuffleId, inner.dependency)
