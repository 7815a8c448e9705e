export { type Job, JobLost, type JobRun, JobStopped } from './job.js';
export { disabledStep, type JobRow, type JobState, readJob, readJobs } from './job-rows.js';
export { runNow } from './lease.js';
export { formatTime, lastRunText, nextRunText } from './report.js';
export { nextStart, OFF, scheduleFault } from './schedule.js';
export { type JobsLog, Scheduler } from './scheduler.js';
export { checkCertificates, standardJobs } from './standard-jobs.js';
