#include <fmt/core.h>

#include <cmath>

#include "ddlsim/report/views.h"
#include "ddlsim/support/quantity_io.h"
#include "json.h"
#include "pictures.h"
#include "table.h"

namespace ddlsim::report {
namespace {

Table share_table(const answer::FleetReport& report) {
  Table table({"architecture", "jobs", "cNodes", "input", "compute", "memory", "comm.", "input/cN", "compute/cN",
               "memory/cN", "comm./cN"});
  for (const answer::FleetGroup& group : report.groups) {
    const answer::TimeShares& job = group.by_job;
    const answer::TimeShares& cnode = group.by_cnode;
    table.add({group.architecture, to_text(group.jobs), to_text(group.cnodes), percent(job.input), percent(job.compute),
               percent(job.memory), percent(job.communication), percent(cnode.input), percent(cnode.compute),
               percent(cnode.memory), percent(cnode.communication)});
  }
  return table;
}

Table speedup_table(const answer::FleetReport& report) {
  Table table(
      {"change", "architecture", "jobs", "too large", "faster", "mean", "mean/cN", "p10", "median", "p90", "max"});
  table.numbers_from(2);
  for (const answer::SpeedupRow& row : report.speedups) {
    const auto number = [](double value) {
      return std::isnan(value) ? std::string("-") : fmt::format("{:.3f}", value);
    };
    table.add({row.change, row.architecture, to_text(row.jobs), to_text(row.too_large), percent(row.faster),
               number(row.mean), number(row.mean_by_cnode), number(row.p10), number(row.median), number(row.p90),
               number(row.largest)});
  }
  return table;
}

std::string share_csv(const answer::FleetReport& report) {
  Table table({"architecture", "jobs", "cnodes", "input_share", "compute_share", "memory_share", "communication_share",
               "input_share_by_cnode", "compute_share_by_cnode", "memory_share_by_cnode",
               "communication_share_by_cnode"});
  for (const answer::FleetGroup& group : report.groups) {
    std::vector<std::string> cells{group.architecture, std::to_string(group.jobs), std::to_string(group.cnodes)};
    for (const answer::TimeShares* shares : {&group.by_job, &group.by_cnode}) {
      for (const double share : {shares->input, shares->compute, shares->memory, shares->communication}) {
        cells.push_back(fmt::format("{}", share));
      }
    }
    table.add(std::move(cells));
  }
  return table.render(Format::kCsv);
}

std::string speedup_csv(const answer::FleetReport& report) {
  Table table({"change", "architecture", "jobs", "too_large", "faster_share", "mean", "mean_by_cnode", "p10", "median",
               "p90", "max"});
  for (const answer::SpeedupRow& row : report.speedups) {
    std::vector<std::string> cells{row.change, row.architecture, std::to_string(row.jobs),
                                   std::to_string(row.too_large)};
    for (const double value : {row.faster, row.mean, row.mean_by_cnode, row.p10, row.median, row.p90, row.largest}) {
      cells.push_back(std::isnan(value) ? std::string() : fmt::format("{}", value));
    }
    table.add(std::move(cells));
  }
  return table.render(Format::kCsv);
}

std::string headline_value(double value, bool is_percent) {
  return is_percent ? percent(value) : fmt::format("{:.2f}x", value);
}

Table headline_table(const answer::FleetReport& report) {
  Table table({"headline of the study", "published", "here", "status"});
  for (const answer::HeadlineRow& row : report.headlines) {
    table.add(
        {row.text, headline_value(row.published, row.percent), headline_value(row.computed, row.percent), row.status});
  }
  return table;
}

}  // namespace

std::string render(const answer::FleetReport& report, Format format) {
  if (is_drawn(format)) return drawn(format, pictures_of(report), render(report, Format::kMd));
  if (format == Format::kJson) return dump(to_json(report));
  if (format == Format::kCsv) return report.speedups.empty() ? share_csv(report) : speedup_csv(report);
  std::string text;
  if (!report.groups.empty()) {
    const answer::FleetGroup& all = report.groups.front();
    text += fmt::format("{} jobs: communication takes {} of all cNode time ({} of a mean job's step)\n\n",
                        to_text(all.jobs), percent(all.by_cnode.communication), percent(all.by_job.communication));
  }
  if (!report.title.empty()) text += report.title + "\n";
  text += report.setting + "\n\n";
  if (!report.groups.empty()) {
    text += "share of the step, mean over jobs, and over cNodes (/cN):\n" + share_table(report).render(format);
  }
  if (!report.speedups.empty()) {
    text +=
        "\nspeedups (too large: weights exceed a GPU, counted as not faster):\n" + speedup_table(report).render(format);
  }
  if (!report.headlines.empty()) {
    text += "\n" + headline_table(report).render(format) + "\n";
    for (const answer::HeadlineRow& row : report.headlines) text += fmt::format("{}: {}\n", row.text, row.difference);
  }
  for (const std::string& note : report.notes) {
    if (!note.empty()) text += "note: " + note + "\n";
  }
  return text;
}

std::string speedup_cdf(const answer::FleetReport& report) {
  Table table({"change", "architecture", "percentile", "speedup"});
  for (const answer::SpeedupRow& row : report.speedups) {
    for (std::size_t i = 0; row.jobs > 0 && i < row.percentiles.size(); ++i) {
      table.add({row.change, row.architecture, std::to_string(i + 1), fmt::format("{:.4f}", row.percentiles[i])});
    }
  }
  return table.render(Format::kCsv);
}

}  // namespace ddlsim::report
