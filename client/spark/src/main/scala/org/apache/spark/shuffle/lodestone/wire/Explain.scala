// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

/** A report, which replaces the last one. `ended`: no newer one follows. The answer is [[Done]]. */
private[spark] final case class ReportApplication(app: Application, ended: Boolean, report: String)
    extends Message(ReportApplication)

private[spark] object ReportApplication extends Codec[ReportApplication](81) {
  override private[wire] def read(in: WireReader): ReportApplication =
    ReportApplication(Application.read(in), in.bool(), in.string())
}

/** Asks for the reports of all attempts of an application; with an empty id, for a list of all. */
private[spark] final case class ExplainApplication(appId: String)
    extends Message(ExplainApplication)

private[spark] object ExplainApplication extends Codec[ExplainApplication](82) {
  override private[wire] def read(in: WireReader): ExplainApplication =
    ExplainApplication(in.string())
}

/** A report as a service keeps it. In a list its text is empty. */
private[spark] final case class ReportKept(
    app: Application,
    ended: Boolean,
    ageMs: Long,
    report: String)

private[spark] final case class Explanation(incarnation: Long, applications: Array[ReportKept])
    extends Message(Explanation)

private[spark] object Explanation extends Codec[Explanation](83) {

  /** The size of two empty strings, the attempt, the flag and the age. */
  private val MinReportBytes = 21

  override private[wire] def read(in: WireReader): Explanation =
    Explanation(
      in.long(),
      in.seq(MinReportBytes) {
        ReportKept(Application.read(in), in.bool(), in.long(), in.string())
      })
}
