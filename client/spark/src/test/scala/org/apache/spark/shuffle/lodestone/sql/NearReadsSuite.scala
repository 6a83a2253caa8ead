// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.sql

import java.nio.file.Path

import org.junit.jupiter.api.{AfterAll, BeforeAll, Tag, Test, TestInstance}
import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.TestInstance.Lifecycle
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.SparkContext
import org.apache.spark.shuffle.lodestone.LocalSpark
import org.apache.spark.shuffle.lodestone.plan.{ReadSize, TaskHosts}
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.execution.adaptive.{
  AQEShuffleReadExec,
  AdaptiveSparkPlanExec,
  QueryStageExec
}
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec

/** Queries of one Spark with and without the rule, which gives each task a host. */
@Tag("seldom")
@TestInstance(Lifecycle.PER_CLASS)
final class NearReadsSuite {
  import NearReadsSuite._

  private var plain: SparkSession = _
  private var near: SparkSession = _

  @BeforeAll def startSpark(): Unit = {
    val conf = LocalSpark.conf("near-reads")
      .set("spark.sql.shuffle.partitions", "6")
      // Otherwise Spark itself has a host for each partition, and coalesces by hosts.
      .set("spark.shuffle.reduceLocality.enabled", "false")
      .set("spark.sql.autoBroadcastJoinThreshold", "-1")
      .set("spark.sql.adaptive.coalescePartitions.parallelismFirst", "false")
      .set("spark.sql.adaptive.advisoryPartitionSizeInBytes", "20k")
    val context = new SparkContext(conf)
    plain = session(_ => ())
    near = session(EachTaskHasAHost)
    assertEquals(context, near.sparkContext)
  }

  @AfterAll def stopSpark(): Unit = {
    forgetSessions()
    plain.sparkContext.stop()
  }

  private def forgetSessions(): Unit = {
    SparkSession.clearActiveSession()
    SparkSession.clearDefaultSession()
  }

  private def session(extensions: SparkSessionExtensions => Unit): SparkSession = {
    forgetSessions()
    val made = SparkSession.builder().withExtensions(extensions).getOrCreate()
    made.range(0, 6000, 1, 6)
      .selectExpr("id % 97 as k", "id as v", "repeat('x', cast(id % 40 as int)) as s")
      .createOrReplaceTempView("large")
    made.range(0, 500, 1, 4).selectExpr("id as j", "id * 2 as w").createOrReplaceTempView("small")
    // Half of the rows have one key.
    made.range(0, 20000, 1, 6)
      .selectExpr("if(id % 2 = 0, 1, id % 300) as k", "repeat(cast(id as string), 4) as s")
      .createOrReplaceTempView("skewed")
    made
  }

  /** Runs the query in the session that has the rule, and in the one that has not. */
  private def compared(settings: (String, String)*)(
      query: SparkSession => DataFrame,
      isOrdered: Boolean = false): String = {
    def answerOf(session: SparkSession): (Seq[String], SparkPlan) = {
      SparkSession.setActiveSession(session)
      val before = settings.map { case (key, _) => key -> session.conf.getOption(key) }
      settings.foreach { case (key, value) => session.conf.set(key, value) }
      try {
        val frame = query(session)
        val rows = frame.collect().map(_.toString).toSeq
        (if (isOrdered) rows else rows.sorted, frame.queryExecution.executedPlan)
      } finally {
        before.foreach {
          case (key, Some(value)) => session.conf.set(key, value)
          case (key, None) => session.conf.unset(key)
        }
      }
    }
    val (expected, found) = (answerOf(plain), answerOf(near))
    val shown = found._2.toString
    assertTrue(expected._1.nonEmpty, shown)
    assertEquals(expected._1, found._1, shown)
    assertEquals(shapeOf(expected._2), shapeOf(found._2), shown)
    assertFalse(nodesOf(expected._2).exists(_.isInstanceOf[NearReadExec]))
    for (NearReadExec(read: AQEShuffleReadExec, _) <- nodesOf(found._2))
      assertFalse(read.isLocalRead, shown)
    shown
  }

  /** Compares a query whose tasks get hosts. */
  private def placed(settings: (String, String)*)(
      query: String,
      isOrdered: Boolean = false): String = {
    val plan = compared(settings: _*)(_.sql(query), isOrdered)
    assertTrue(plan.contains("LodestoneNearRead"), plan)
    plan
  }

  @Test def `coalesced reads stay as they are`(): Unit = {
    val plan = placed()("select k, count(*), sum(v) from large group by k")
    assertTrue(plan.contains("AQEShuffleRead coalesced"), plan)
  }

  @Test def `reads that are not coalesced stay as they are`(): Unit = {
    placed("spark.sql.adaptive.coalescePartitions.enabled" -> "false")(
      "select k, count(*), sum(v) from large group by k")
    placed()("select /*+ repartition(5) */ * from large")
  }

  @Test def `joins of two shuffles stay as they are`(): Unit = {
    val join = "from large join small on k = j"
    assertTrue(placed()(s"select v, w $join").contains("SortMergeJoin"))
    val hashed = placed()(s"select /*+ shuffle_hash(small) */ v, w $join")
    assertTrue(hashed.contains("ShuffledHashJoin"), hashed)
    placed()("select v, w from large full outer join small on k = j")
  }

  @Test def `skewed reads stay as they are`(): Unit = {
    val plan = placed(
      "spark.sql.adaptive.skewJoin.skewedPartitionFactor" -> "2",
      "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes" -> "10k")(
      "select k, s, w from skewed join small on k = j")
    assertTrue(plan.contains("skewed"), plan)
    placed()("select /*+ rebalance(k) */ * from skewed")
  }

  @Test def `local reads have no hosts of ours`(): Unit = {
    val plan = compared("spark.sql.adaptive.autoBroadcastJoinThreshold" -> "100k")(
      _.sql("select v, w from large join small on k = j"))
    assertTrue(plan.contains("AQEShuffleRead local"), plan)
  }

  @Test def `exchanges are used again`(): Unit = {
    val grouped = "(select k, sum(v) as t from large group by k)"
    val plan = placed()(s"select a.k, a.t, b.t from $grouped a join $grouped b on a.k = b.k")
    assertTrue(plan.contains("ReusedExchange"), plan)
    placed()(s"select * from $grouped union all select * from $grouped")
  }

  @Test def `a later stage of a reused exchange is used again`(): Unit = {
    val twice = "(select t, count(*) as c from (select k, sum(v) % 7 as t from large group by k) " +
      "group by t)"
    val plan = placed()(s"select a.t, b.c from $twice a join $twice b on a.t = b.t")
    assertTrue(plan.contains("ReusedExchange"), plan)
  }

  @Test def `broadcasts stay as they are`(): Unit =
    assertTrue(placed()(
      "select /*+ broadcast(b) */ v, c from large " +
        "join (select k, count(*) as c from large group by k) b on large.k = b.k")
      .contains("BroadcastHashJoin"))

  @Test def `subqueries stay as they are`(): Unit = {
    compared()(_.sql("select k, sum(v) as t from large group by k " +
      "having t > (select avg(w) from (select w, count(*) from small group by w))"))
    placed()("select * from large where k in (select j from small group by j having j < 9)")
    ()
  }

  @Test def `sorts and windows and limits stay as they are`(): Unit = {
    placed()("select * from large order by v desc, k", isOrdered = true)
    placed()("select k, v, sum(v) over (partition by k order by v) from large")
    placed()(
      "select k, count(*) as c from large group by k order by c, k limit 7",
      isOrdered = true)
    placed()("select distinct k, s from large")
    ()
  }

  @Test def `plans without generated code stay as they are`(): Unit = {
    placed("spark.sql.codegen.wholeStage" -> "false")(
      "select k, count(*), sum(w) from large join small on k = j group by k")
    ()
  }

  @Test def `plans without adaptive execution have no node of ours`(): Unit = {
    val plan = compared("spark.sql.adaptive.enabled" -> "false")(
      _.sql("select k, count(*), sum(w) from large join small on k = j group by k"))
    assertFalse(plan.contains("LodestoneNearRead"), plan)
  }

  @Test def `cached tables stay as they are`(): Unit = {
    val plan = compared() { session =>
      session.sql("select k, sum(v) as t from large group by k").cache()
        .createOrReplaceTempView("kept")
      session.sql("select t % 5 as f, count(*) from kept group by f")
    }
    assertTrue(plan.contains("InMemoryTableScan"), plan)
    Seq(plain, near).foreach(_.catalog.clearCache())
  }

  @Test def `written files are the same`(@TempDir directory: Path): Unit = {
    compared() { session =>
      val target = directory.resolve(if (session eq plain) "plain" else "near").toString
      session.sql("select k, sum(v) as t, k % 3 as p from large group by k")
        .write.mode("overwrite").partitionBy("p").parquet(target)
      session.read.parquet(target)
    }
    ()
  }

  @Test def `a query runs again`(): Unit = {
    def rowsOf(frame: DataFrame): Seq[String] = frame.collect().map(_.toString).sorted.toSeq
    def frameOf(session: SparkSession): DataFrame = {
      SparkSession.setActiveSession(session)
      session.sql("select k, sum(w) from large join small on k = j group by k")
    }
    val rows = rowsOf(frameOf(plain))
    val frame = frameOf(near)
    for (_ <- 1 to 2) assertEquals(rows, rowsOf(frame))
    val shown = frame.queryExecution.executedPlan.toString
    assertTrue(shown.contains("LodestoneNearRead"), shown)
  }

  @Test def `sorted rows of fewer partitions are in order`(): Unit = {
    for (partitions <- Seq(2, 1)) {
      def ordered(session: SparkSession): (Seq[Long], String) = {
        SparkSession.setActiveSession(session)
        session.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
        val frame = session.sql("select * from large order by v desc").coalesce(partitions)
        val rows = frame.collect().map(_.getAs[Long]("v")).toSeq
        session.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")
        rows -> frame.queryExecution.executedPlan.toString
      }
      val (expected, found) = (ordered(plain), ordered(near))
      assertEquals((0L until 6000L).reverse, expected._1)
      assertEquals(expected._1, found._1)
      assertEquals(partitions == 1, found._2.contains("LodestoneNearRead"), found._2)
    }
  }

  @Test def `the scheduler finds the hosts of each task`(): Unit = {
    SparkSession.setActiveSession(near)
    val queries = Seq(
      "select k, count(*) from large group by k",
      "select v, w from large join small on k = j",
      "select /*+ shuffle_hash(small) */ v, w from large join small on k = j",
      "select * from large order by v",
      "select * from (select k, count(*) from large group by k) union all " +
        "select * from (select w, count(*) from small group by w)")
    for (query <- queries) {
      val rdd = near.sql(query).queryExecution.toRdd
      val hosts = rdd.partitions.map { partition =>
        near.sparkContext.getPreferredLocs(rdd, partition.index).map(_.host).toSeq
      }
      assertTrue(hosts.nonEmpty && hosts.forall(_ == Seq(Host)), s"$query: ${hosts.toSeq}")
    }
  }
}

private object NearReadsSuite {
  val Host = "somewhere"

  object EachTaskHasAHost extends (SparkSessionExtensions => Unit) {
    override def apply(extensions: SparkSessionExtensions): Unit =
      extensions.injectColumnar(_ =>
        new ColumnarRule {
          override def postColumnarTransitions: NearReads = new NearReads(hostsFor)
        })

    private def hostsFor(shuffleId: Int, reads: Seq[ReadSize]): Option[TaskHosts] =
      Some(new TaskHosts(reads.map(_ => Seq(Host)).toIndexedSeq))
  }

  private def inside(plan: SparkPlan): Seq[SparkPlan] =
    (plan match {
      case adaptive: AdaptiveSparkPlanExec => Seq(adaptive.executedPlan)
      case stage: QueryStageExec => Seq(stage.plan)
      case reused: ReusedExchangeExec => Seq(reused.child)
      case cached: InMemoryTableScanExec => Seq(cached.relation.cachedPlan)
      case other => other.children
    }) ++ plan.subqueries

  def nodesOf(plan: SparkPlan): Seq[SparkPlan] = plan +: inside(plan).flatMap(nodesOf)

  /** Each operator with its numbers, without those of time, size and memory. */
  def shapeOf(plan: SparkPlan): String = plan match {
    case near: NearReadExec => shapeOf(near.child)
    case other =>
      val numbers = other.metrics.toSeq.sortBy(_._1).collect {
        case (name, metric) if metric.metricType == "sum" && !isOfChance(name) =>
          s"$name=${metric.value}"
      }
      s"${other.nodeName}${numbers.mkString("[", ",", "]")}" +
        inside(other).map(shapeOf).mkString("(", " ", ")")
  }

  private def isOfChance(metric: String): Boolean =
    metric.contains("pill") || metric.contains("lobal") || metric.contains("time")
}
