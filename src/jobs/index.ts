export { type Job, JobLost, type JobRun, JobStopped, nextStart, OFF, scheduleFault } from './job.js';
export { disabledStep, type JobRow, type JobState, readJob, readJobs } from './job-rows.js';
export { runNow } from './lease.js';
export { formatTime, type JobsLog, lastRunText, nextRunText, Scheduler } from './scheduler.js';
export { checkCertificates, standardJobs } from './standard-jobs.js';
