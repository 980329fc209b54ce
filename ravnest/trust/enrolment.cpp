#include "ravnest/trust/enrolment.h"

#include <utility>

#include "ravnest/base/error.h"

namespace ravnest::trust {

EnrolmentDesk::EnrolmentDesk(Authority authority, Admit admit, EnrolmentOptions options)
    : authority_(std::move(authority)),
      admit_(std::move(admit)),
      options_(std::move(options)),
      limit_(options_.limits) {}

EnrolmentAnswer EnrolmentDesk::enrol(const EnrolmentForm& form) {
  const std::lock_guard lock(mutex_);
  if (!limit_.may_try(form.host, options_.steady_now())) {
    return {.outcome = EnrolmentOutcome::kTooMany,
            .text = "too many attempts failed; wait a minute."};
  }
  EnrolmentAnswer answer = decide(form);
  if (answer.outcome != EnrolmentOutcome::kAdmitted) {
    limit_.on_failure(form.host, options_.steady_now());
  }
  return answer;
}

EnrolmentAnswer EnrolmentDesk::decide(const EnrolmentForm& form) {
  try {
    check_machine_name(form.name);
    const Request request = Request::parse(form.request);
    const Secret secret(std::as_bytes(std::span(form.secret)));
    Admission admission = admit_(secret.hash(), form.name);
    if (!admission.member) {
      return {.outcome = EnrolmentOutcome::kRefused, .text = std::move(admission.reason)};
    }
    const Validity validity = valid_for(options_.days, options_.now());
    return {.outcome = EnrolmentOutcome::kAdmitted,
            .certificate = authority_.issue(request, *admission.member, validity)};
  } catch (const std::invalid_argument& error) {
    return {.outcome = EnrolmentOutcome::kMalformed, .text = error.what()};
  }
}

}  // namespace ravnest::trust
