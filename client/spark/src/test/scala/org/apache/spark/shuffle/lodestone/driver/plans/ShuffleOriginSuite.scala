// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.plans

import java.util.concurrent.Executors

import org.example.direct.ForeignCaller
import org.junit.jupiter.api.Assertions.{assertFalse, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.shuffle.lodestone.LocalSpark
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.perf.DeltasCaller
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.execution.planted.LikeSparksCaller

final class ShuffleOriginSuite {
  private def isSparksOwn: Boolean = ShuffleOrigin.isSparksOwn

  private def inQuery(made: => Boolean): Boolean = {
    val spark = SparkSession.builder().config(LocalSpark.conf("shuffle-origin")).getOrCreate()
    try SQLExecution.withNewExecutionId(spark.range(1).queryExecution)(made)
    finally spark.stop()
  }

  @Test def `a shuffle that Spark makes for a query is Spark's own, and no other one`(): Unit = {
    assertTrue(inQuery(isSparksOwn))
    assertFalse(isSparksOwn)
    assertFalse(ForeignCaller(isSparksOwn))
    assertTrue(ForeignCaller(inQuery(isSparksOwn)))
  }

  @Test def `a shuffle that other code makes is its own, whatever its package`(): Unit = {
    assertFalse(inQuery(ForeignCaller(isSparksOwn)))
    assertFalse(inQuery(DeltasCaller(isSparksOwn)))
    assertFalse(inQuery(LikeSparksCaller(isSparksOwn)))
    assertFalse(inQuery(Seq(1).forall(_ => ForeignCaller(isSparksOwn))))
  }

  @Test def `a thread of a pool that only runs other code makes no shuffle of Spark's`(): Unit = {
    val pool = Executors.newSingleThreadExecutor()
    try assertFalse(inQuery(pool.submit(() => isSparksOwn).get))
    finally pool.shutdown()
  }
}
